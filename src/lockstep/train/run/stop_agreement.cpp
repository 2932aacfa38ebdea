#include <lockstep/train/run/stop_agreement.hpp>

#include <algorithm>
#include <utility>

#include <lockstep/comm/call_label.hpp>

namespace lockstep::train {

StopAgreement::StopAgreement(ProcessGroup& group)
    : group_(group), message_(Tensor::empty({1}, DType::f64)) {}

void StopAgreement::ask(StopReason mine) {
  static_cast<void>(answer());
  *static_cast<double*>(message_.data()) = static_cast<double>(mine);
  const CallLabel label("whether to stop", -1);
  question_ = group_.all_reduce(message_, ReduceOp::max);
  asked_ = true;
}

StopReason StopAgreement::answer() {
  if (std::exchange(asked_, false)) {
    question_.wait();
    const double highest = *static_cast<const double*>(message_.data());
    agreed_ = std::max(agreed_, static_cast<StopReason>(highest));
  }
  return agreed_;
}

}  // namespace lockstep::train
