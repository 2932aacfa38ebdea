#pragma once
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::train {

class Task;
struct RunPlan;

/// BatchNorm cannot normalise a channel with a single value, for example one sample of features.
/// Throws InputError, with the step and the remedy, if a forward pass of these batches would have
/// one sample on any rank, and `model`, a new one of the task's, fails on a sample of the training
/// set. Local.
void expect_batches_normalise(const Task& task, const RunPlan& plan, const BatchPlan& batches,
                              nn::Module& model);

/// A forward pass takes one of the `accumulate` parts of a shard (a rank's share with reduction
/// "fast"); with `joined` (SyncBatchNorm), the same parts of all shards together. Returns whether
/// one of them is a single sample, in a batch of so many.
[[nodiscard]] bool has_part_of_one(std::int64_t batch_size, std::int64_t shards,
                                   std::int64_t accumulate, bool joined);

}  // namespace lockstep::train
