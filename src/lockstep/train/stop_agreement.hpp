#pragma once
#include <cstdint>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::train {

/// Lets all ranks stop at the same step, though a signal reaches them at different moments or only
/// one of them. Asked at every step boundary, it communicates at some of them only, about
/// `seconds_between` apart by the slowest rank's clock; all ranks know which, because that
/// rank's time for a step travels with each answer. Steps longer than that are all looked at.
class StopAgreement {
 public:
  static constexpr double seconds_between = 0.2;

  explicit StopAgreement(ProcessGroup& group);

  /// True, on every rank, once a stop has been requested of any. Collective; allocates nothing.
  [[nodiscard]] bool stop_now();

 private:
  ProcessGroup& group_;
  Tensor message_;  ///< two f64: 1 if a stop is requested, seconds a boundary since the last answer
  Clock::time_point last_answer_ = Clock::now();
  std::int64_t interval_ = 1;    ///< boundaries between two answers
  std::int64_t boundaries_ = 1;  ///< left until the next one
  bool agreed_ = false;
};

}  // namespace lockstep::train
