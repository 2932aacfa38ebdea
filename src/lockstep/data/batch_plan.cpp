#include <lockstep/data/batch_plan.hpp>

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
  if (world < 1) throw Error(fmt::format("{}: a world of {} ranks does not exist", plan, world));
}

// The r-th of `world` contiguous parts of n things: the first n % world parts have one more.
Range part_of(std::int64_t n, std::int64_t world, std::int64_t rank) {
  const std::int64_t least = n / world, larger = n % world;
  const std::int64_t begin = rank * least + std::min(rank, larger);
  return {begin, begin + least + (rank < larger ? 1 : 0)};
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace

BatchPlan::BatchPlan(std::int64_t samples, std::int64_t batch_size, int world, bool drop_last)
    : samples_(samples), batch_size_(batch_size), world_(world), steps_(0) {
  check_sizes("training batches", samples, batch_size, world);
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
  const Range whole = batch(step);
  const Range part = part_of(whole.size(), world_, rank);
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
