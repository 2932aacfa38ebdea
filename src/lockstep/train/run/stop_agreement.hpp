#pragma once
#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

/// Stops all ranks at the same step, for the same reason, although the reason reaches them at
/// different moments or only one of them. The existence of a reason travels with the gradients, so
/// a step without one sends nothing for it. Then the ranks exchange the reason, and get the answer
/// at the step's end.
///   ddp.ask_along([] { return requested_stop() != StopReason::none; });
///   ...
///   ddp.backward(...);
///   if (ddp.any_said_yes()) stop.ask(requested_stop());  // on all ranks
///   optimizer.step();
///   if (stop.answer() != StopReason::none) ...  // on all ranks
class StopAgreement {
 public:
  explicit StopAgreement(ProcessGroup& group);

  /// This rank's reason to stop, or none. Collective; allocates nothing.
  void ask(StopReason mine);

  /// The highest reason of any rank at the last ask(); once set it stays. Collective.
  [[nodiscard]] StopReason answer();

 private:
  ProcessGroup& group_;
  Tensor message_;  ///< one f64: the reason
  Work question_;
  bool asked_ = false;
  StopReason agreed_ = StopReason::none;
};

}  // namespace lockstep::train
