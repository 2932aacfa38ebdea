#pragma once
#include <optional>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/train/report/device_spans.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/strategy/strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {

/// A phase of a pass, without the wait for other ranks.
template <class Wrapper>
class OwnTime {
 public:
  OwnTime(const Wrapper& wrapper, double& total, const char* name)
      : wrapper_(wrapper), total_(total), waited_before_(waited()), phase_(total, name) {}
  ~OwnTime() { total_ -= waited() - waited_before_; }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  [[nodiscard]] double waited() const { return wrapper_.stats().wait_s; }

  const Wrapper& wrapper_;
  double& total_;
  double waited_before_;
  StepClock::Phase phase_;
};

/// Strategy::run by DistributedDataParallel or FullyShardedDataParallel. Without samples forward
/// runs only if `all_go_forward`.
template <class Wrapper>
Tensor run_by(Wrapper& wrapper, bool all_go_forward, const Task& task, const Strategy::Pass& pass) {
  const nn::RandomContextGuard random(pass.random);
  const bool has_samples = pass.batch.size() > 0;
  Variable loss;
  if (has_samples || all_go_forward) {
    const OwnTime own(wrapper, pass.times.forward, "forward");
    const DeviceSpans::Span span(pass.spans, "forward");
    const FlopCounter counter;
    const Variable output =
        wrapper.forward([&](nn::Module& model) { return task.forward(model, pass.batch); });
    loss = has_samples ? task.loss(output, pass.batch) : sum(output);
    pass.times.flops += 3.0 * static_cast<double>(counter.flops());
    pass.times.nominal_flops += 3.0 * static_cast<double>(counter.nominal_flops());
  }
  Tensor mean = has_samples ? loss.data() : Tensor();
  std::optional<typename Wrapper::NoSync> local;
  if (!pass.is_last) local.emplace(wrapper);
  const OwnTime own(wrapper, pass.times.backward, "backward");
  const DeviceSpans::Span span(pass.spans, "backward");
  wrapper.backward(loss, pass.weight, pass.loss_scale);
  return mean;
}

}  // namespace lockstep::train
