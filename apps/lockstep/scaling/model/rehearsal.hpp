#pragma once
#include <cstdint>

#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>

#include "scaling/model/gradient_plan.hpp"

namespace lockstep::scaling {

/// Backward passes of rank 0 of `ranks`, with the first `samples` training samples, of which the
/// task has one at least: the task's model in the real DistributedDataParallel on a FakeGroup,
/// whose hook notes when which bytes are sent. Nothing moves; the gradients are real. Fractions are
/// medians over some passes, after those that settle the order of buckets. Throws InputError for
/// decks whose communication is not that of buckets on the host alone: another run.device, sums
/// over shards, post_local_sgd, synchronised layers, or buffers broadcast at each step.
[[nodiscard]] GradientPlan rehearse(const train::Task& task, const train::RunPlan& plan, int ranks,
                                    std::int64_t samples);

}  // namespace lockstep::scaling
