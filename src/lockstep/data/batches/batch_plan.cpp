#include <lockstep/data/batches/batch_plan.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

void check_sizes(const char* plan, std::int64_t samples, std::int64_t batch_size, int world) {
  if (samples < 1) {
    throw InputError(
        fmt::format("{}: the data set has {} samples; at least 1 is needed.", plan, samples));
  }
  if (batch_size < 1) {
    throw InputError(
        fmt::format("{}: the batch size is {}; it must be at least 1.", plan, batch_size));
  }
  if (world < 1)
    throw Error(fmt::format("{}: the number of ranks is {}; it must be at least 1", plan, world));
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

Range part_of(std::int64_t n, std::int64_t parts, std::int64_t part) {
  const std::int64_t least = n / parts, larger = n % parts;
  const std::int64_t begin = part * least + std::min(part, larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

BatchPlan::BatchPlan(std::int64_t samples, std::int64_t batch_size, int world, bool drop_last,
                     std::int64_t shards)
    : samples_(samples),
      batch_size_(batch_size),
      world_(world),
      shards_(shards == 0 ? world : shards),
      steps_(0) {
  check_sizes("training batches", samples, batch_size, world);
  if (shards_ % world != 0) {
    throw InputError(fmt::format("training batches: {} ranks cannot hold {} shards, each as many",
                                 world, shards));
  }
  if (drop_last && batch_size > samples) {
    throw InputError(fmt::format(
        "training batches: the batch size {} is larger than the {} samples of the data "
        "set, and drop_last drops the only, smaller batch: no step is left. Use a batch "
        "size of at most {}, or drop_last = false.",
        batch_size, samples, samples));
  }
  steps_ = drop_last ? samples / batch_size : ceil_divide(samples, batch_size);
}

std::int64_t BatchPlan::largest_share(int rank) const { return share(0, rank).size(); }

Range BatchPlan::batch(std::int64_t step) const {
  if (step < 0 || step >= steps_) {
    throw Error(fmt::format("step {} is not in an epoch of {} steps", step, steps_));
  }
  const std::int64_t begin = step * batch_size_;
  return {begin, begin + std::min(batch_size_, samples_ - begin)};
}

Share BatchPlan::share(std::int64_t step, int rank) const {
  if (rank < 0 || rank >= world_) {
    throw Error(fmt::format("rank {} is not in a world of {}", rank, world_));
  }
  const std::int64_t each = shards_ / world_;
  return shards_of_batch(step, rank * each, (rank + 1) * each);
}

Share BatchPlan::shard(std::int64_t step, std::int64_t shard) const {
  if (shard < 0 || shard >= shards_) {
    throw Error(fmt::format("shard {} is not among the {} of a batch", shard, shards_));
  }
  return shards_of_batch(step, shard, shard + 1);
}

Share BatchPlan::shards_of_batch(std::int64_t step, std::int64_t first, std::int64_t last) const {
  const Range whole = batch(step);
  const Range part{part_of(whole.size(), shards_, first).begin,
                   part_of(whole.size(), shards_, last - 1).end};
  return {{whole.begin + part.begin, whole.begin + part.end}, part.begin, whole.size()};
}

EvalPlan::EvalPlan(std::int64_t samples, std::int64_t batch_size, int world)
    : samples_(samples), batch_size_(batch_size), world_(world), batches_(0) {
  check_sizes("evaluation batches", samples, batch_size, world);
  batches_ = ceil_divide(samples, batch_size);
}

std::int64_t EvalPlan::batches_of(int rank) const { return part_of(batches_, world_, rank).size(); }

Range EvalPlan::batch(std::int64_t batch) const {
  if (batch < 0 || batch >= batches_) {
    throw Error(fmt::format("batch {} is not among the {} of an evaluation", batch, batches_));
  }
  const std::int64_t begin = batch * batch_size_;
  return {begin, begin + std::min(batch_size_, samples_ - begin)};
}

}  // namespace lockstep
