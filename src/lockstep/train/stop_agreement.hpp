#pragma once
#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <lockstep/train/stop_request.hpp>

namespace lockstep::train {

/// Lets all ranks stop at the same step, though a reason reaches them at different moments or only
/// one of them. A rank asks where it has just waited for all others, as for the sums of gradients,
/// and hears the answer at the step's end: in between the question travels, and nobody waits for
/// it.
///   ddp.backward(...);
///   stop.ask(requested_stop());
///   optimizer.step();
///   if (stop.answer() != StopReason::none) ...  // on all ranks
class StopAgreement {
 public:
  explicit StopAgreement(ProcessGroup& group);

  /// This rank's reason to stop, or none. Collective; allocates nothing.
  void ask(StopReason mine);

  /// The highest reason of any rank at the last ask(); once there is one it stays. Collective.
  [[nodiscard]] StopReason answer();

 private:
  ProcessGroup& group_;
  Tensor message_;  ///< one f64: the reason
  Work question_;
  bool asked_ = false;
  StopReason agreed_ = StopReason::none;
};

}  // namespace lockstep::train
