#include <lockstep/train/step_losses.hpp>

#include <cmath>
#include <cstddef>

namespace lockstep::train {

StepLosses::StepLosses(Device device) : device_(device) {
  for (std::int64_t i = 0; i <= most_waiting; ++i) ring_.emplace_back(device);
}

void StepLosses::add(const Tensor& mean, std::int64_t rows) {
  ring_[next_].parts.push_back({mean.to(Device{}, true), rows});
}

void StepLosses::end_step(std::int64_t step) {
  ring_[next_].number = step;
  ring_[next_].arrived.record(current_stream(device_));
  next_ = (next_ + 1) % ring_.size();
  ++waiting_;
}

StepLosses::Taken StepLosses::take() {
  const auto behind = static_cast<std::size_t>(waiting_--);
  Step& step = ring_[(next_ + ring_.size() - behind) % ring_.size()];
  step.arrived.synchronize();
  Taken taken{.step = step.number};
  for (const Part& part : step.parts) {
    const double mean = part.mean.item();
    taken.sum += mean * static_cast<double>(part.rows);
    if (!std::isfinite(mean)) taken.not_finite = mean;
  }
  step.parts.clear();
  return taken;
}

}  // namespace lockstep::train
