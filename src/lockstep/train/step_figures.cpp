#include <lockstep/train/step_figures.hpp>

#include <cmath>
#include <cstddef>

#include <lockstep/base/trace.hpp>

namespace lockstep::train {

void StepFigures::Figure::set(const Tensor& there) {
  is_set = there.defined();
  if (!is_set) return;
  const bool is_alike =
      here.defined() && here.shape() == there.shape() && here.dtype() == there.dtype();
  if (is_alike && there.device() != Device{}) {
    here.copy_from(there, true);
  } else {
    here = there.to(Device{}, true);
  }
}

StepFigures::StepFigures(Device device) : device_(device) {
  for (std::int64_t i = 0; i <= most_waiting; ++i) ring_.emplace_back(device);
}

void StepFigures::add(const Tensor& mean, std::int64_t rows) {
  Step& step = ring_[next_];
  if (step.used == step.parts.size()) step.parts.emplace_back();
  Part& part = step.parts[step.used++];
  part.mean.set(mean);
  part.rows = rows;
}

void StepFigures::set_whole(const Tensor& mean, std::int64_t rows) {
  ring_[next_].whole.mean.set(mean);
  ring_[next_].whole.rows = rows;
}

void StepFigures::set_update(const UpdateFigures& update) {
  ring_[next_].grad_norm.set(update.grad_norm);
  ring_[next_].found_inf.set(update.found_inf);
  ring_[next_].loss_scale.set(update.loss_scale);
}

DeviceSpans* StepFigures::spans() {
  if (device_ == Device{} || !tracing()) return nullptr;
  if (!latest_) {
    first_.emplace(device_, true).record(current_stream(device_));
    first_->synchronize();
    latest_ = DeviceMoment{&*first_, trace_now()};
  }
  return &ring_[next_].spans;
}

void StepFigures::end_step(std::int64_t step) {
  ring_[next_].number = step;
  ring_[next_].arrived.record(current_stream(device_));
  next_ = (next_ + 1) % ring_.size();
  ++waiting_;
}

double StepFigures::weighted(const Part& part) {
  return part.rows == 0 ? 0.0 : part.mean.value() * static_cast<double>(part.rows);
}

StepFigures::Taken StepFigures::take() {
  const auto behind = static_cast<std::size_t>(waiting_--);
  Step& step = ring_[(next_ + ring_.size() - behind) % ring_.size()];
  step.arrived.synchronize();
  if (latest_) {
    step.spans.tell(step.number, *latest_);
    latest_ = DeviceMoment{&step.arrived, latest_->ns_of(step.arrived)};
  }
  Taken taken{.step = step.number};
  for (std::size_t i = 0; i < step.used; ++i) {
    const double mean = step.parts[i].mean.value();
    taken.sum += weighted(step.parts[i]);
    if (!std::isfinite(mean)) taken.not_finite = mean;
  }
  if (step.whole.mean.is_set) taken.sum = weighted(step.whole);
  if (step.grad_norm.is_set) taken.grad_norm = step.grad_norm.value();
  if (step.found_inf.is_set) taken.is_left_out = step.found_inf.value() != 0.0;
  if (step.loss_scale.is_set) taken.loss_scale = step.loss_scale.value();
  step.used = 0;
  step.whole.mean.is_set = false;
  return taken;
}

}  // namespace lockstep::train
