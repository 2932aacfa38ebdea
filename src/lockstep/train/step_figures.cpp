#include <lockstep/train/step_figures.hpp>

#include <cmath>
#include <cstddef>

#include <lockstep/base/trace.hpp>

namespace lockstep::train {
namespace {

/// Pinned, to be read when the device has come so far.
Tensor to_host(const Tensor& t) { return t.defined() ? t.to(Device{}, true) : t; }

}  // namespace

StepFigures::StepFigures(Device device) : device_(device) {
  for (std::int64_t i = 0; i <= most_waiting; ++i) ring_.emplace_back(device);
}

void StepFigures::add(const Tensor& mean, std::int64_t rows) {
  ring_[next_].parts.push_back({to_host(mean), rows});
}

void StepFigures::set_whole(const Tensor& mean, std::int64_t rows) {
  ring_[next_].whole = {to_host(mean), rows};
}

void StepFigures::set_update(const UpdateFigures& update) {
  ring_[next_].update = {to_host(update.grad_norm), to_host(update.found_inf),
                         to_host(update.loss_scale)};
}

DeviceSpans* StepFigures::spans() {
  if (device_ == Device{} || !tracing()) return nullptr;
  if (!latest_) {
    first_.emplace(device_).record(current_stream(device_));
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
  return part.rows == 0 ? 0.0 : part.mean.item() * static_cast<double>(part.rows);
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
  for (const Part& part : step.parts) {
    const double mean = part.mean.item();
    taken.sum += weighted(part);
    if (!std::isfinite(mean)) taken.not_finite = mean;
  }
  if (step.whole.mean.defined()) taken.sum = weighted(step.whole);
  const auto& [grad_norm, found_inf, loss_scale] = step.update;
  if (grad_norm.defined()) taken.grad_norm = grad_norm.item();
  if (found_inf.defined()) taken.is_left_out = found_inf.item() != 0.0;
  if (loss_scale.defined()) taken.loss_scale = loss_scale.item();
  step.parts.clear();
  step.whole = {};
  step.update = {};
  return taken;
}

}  // namespace lockstep::train
