#include <lockstep/train/stop_agreement.hpp>

#include <algorithm>

#include <lockstep/train/stop_request.hpp>

namespace lockstep::train {

StopAgreement::StopAgreement(ProcessGroup& group)
    : group_(group), message_(Tensor::empty({2}, DType::f64)) {}

bool StopAgreement::stop_now() {
  if (agreed_ || --boundaries_ > 0) return agreed_;
  auto* const message = static_cast<double*>(message_.data());
  message[0] = stop_requested() ? 1.0 : 0.0;
  message[1] = seconds_since(last_answer_) / static_cast<double>(interval_);
  group_.all_reduce(message_, ReduceOp::max).wait();
  agreed_ = message[0] > 0.0;
  // At most twice as many as before: steps may grow longer, and the first are not typical.
  interval_ = std::clamp(static_cast<std::int64_t>(seconds_between / std::max(message[1], 1e-6)),
                         std::int64_t{1}, 2 * interval_);
  boundaries_ = interval_;
  last_answer_ = Clock::now();
  return agreed_;
}

}  // namespace lockstep::train
