#include <lockstep/train/task/batch_norm_check.hpp>

#include <fmt/format.h>

#include <array>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

bool goes_forward_with_one_sample(const Task& task, nn::Module& model) {
  const Dataset& data = *task.data().train;
  Batch batch(data, 1);
  data.load(std::array<std::int64_t, 1>{0}, batch);
  try {
    const nn::RandomContextGuard random({0, 0, 0});
    model.train();
    static_cast<void>(task.forward(model, batch));
    return true;
  } catch (const ShapeError&) {
    return false;
  }
}

}  // namespace

bool has_part_of_one(std::int64_t batch_size, std::int64_t shards, std::int64_t accumulate,
                     bool joined) {
  const std::int64_t least = batch_size / shards, larger = batch_size % shards;
  if (!joined) {
    // Of s samples in a parts, the larger parts have ceil(s / a), the others floor(s / a).
    const auto in_parts = [&](std::int64_t samples) {
      return samples >= 1 && samples < 2 * accumulate;
    };
    return in_parts(least) || (larger > 0 && in_parts(least + 1));
  }
  for (std::int64_t part = 0; part < accumulate; ++part) {
    const std::int64_t samples = larger * part_of(least + 1, accumulate, part).size() +
                                 (shards - larger) * part_of(least, accumulate, part).size();
    if (samples <= 1) return samples == 1;  // later parts are no larger
  }
  return false;
}

void expect_batches_normalise(const Task& task, const RunPlan& plan, const BatchPlan& batches,
                              nn::Module& model) {
  if (nn::batch_norms_of(model).empty()) return;
  const auto one_in = [&](std::int64_t step) {
    return has_part_of_one(batches.batch(step).size(), batches.shards(), plan.train.accumulate,
                           plan.ddp.sync_batch_norm);
  };
  const bool sharded = plan.train.reduction == TrainOptions::Reduction::invariant;
  const std::int64_t last = batches.steps() - 1;
  const bool everywhere = one_in(0);
  if (!(everywhere || one_in(last)) || goes_forward_with_one_sample(task, model)) return;
  const std::string where =
      fmt::format("step {} of an epoch, a batch of {} of the {} training samples on {} rank{},",
                  everywhere ? 1 : last + 1, batches.batch(everywhere ? 0 : last).size(),
                  batches.samples(), batches.world(), batches.world() == 1 ? "" : "s");
  throw InputError(fmt::format(
      "{} has a forward pass with a single sample, which the model's BatchNorm cannot normalise. "
      "{}.",
      where,
      everywhere && sharded ? "Raise train.batch_size, or lower train.accumulate or train.shards"
      : everywhere
          ? "Raise train.batch_size, lower train.accumulate, use fewer ranks, or, on several "
            "ranks, set ddp.sync_batch_norm = true"
          : "Drop that batch with train.drop_last = true, or choose another train.batch_size"));
}

}  // namespace lockstep::train
