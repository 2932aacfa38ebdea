#include <lockstep/parallel/model_averaging.hpp>

#include <utility>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>

namespace lockstep {

void average_parameters(std::span<const Tensor> values, ProcessGroup& group) {
  for (const Tensor& tensor : values) group.all_reduce(tensor, ReduceOp::avg).wait();
}

void average_parameters(const nn::Module& module, ProcessGroup& group) {
  for (const Variable& parameter : module.parameters()) {
    if (parameter.requires_grad()) group.all_reduce(parameter.data(), ReduceOp::avg).wait();
  }
}

PeriodicModelAverager::PeriodicModelAverager(std::vector<Tensor> values,
                                             std::shared_ptr<ProcessGroup> group,
                                             std::int64_t period, std::int64_t warmup_steps)
    : values_(std::move(values)),
      group_(expect_given("PeriodicModelAverager", "the process group", std::move(group))),
      period_(period),
      warmup_steps_(warmup_steps) {
  if (period >= 1 && warmup_steps >= 0) return;
  throw InputError(fmt::format(
      "a PeriodicModelAverager needs period >= 1, not {}, and warmup_steps >= 0, not {}", period,
      warmup_steps));
}

bool PeriodicModelAverager::average_parameters() {
  const std::int64_t local = step_++ - warmup_steps_;
  if (local < 0) return false;
  apart_ = true;
  if (local % period_ != 0) return false;
  average_now();
  return true;
}

void PeriodicModelAverager::average_now() {
  if (!apart_) return;
  const auto start = Clock::now();
  lockstep::average_parameters(values_, *group_);
  seconds_ += seconds_since(start);
  apart_ = false;
}

}  // namespace lockstep
