#include <fmt/format.h>

#include <memory>
#include <optional>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/parts/weight_averaging.hpp>
#include <lockstep/train/strategy/strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// Number of updates of WeightAveraging, in checkpoints.
constexpr const char* updates_averaged = "n_averaged";

/// [averaging]: evaluations and checkpoints use the averages as the model.
class AveragingPart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "averaging"; }

  void check(const Task& /*task*/, const RunPlan& plan) const override {
    if (ranks_go_apart(plan)) {
      throw InputError(
          "averaging.kind needs equal weights on all ranks, but with ddp.comm_hook = "
          "\"post_local_sgd\" each rank has its own. Use one of the two.");
    }
    if (plan.averaging.start_epoch >= plan.train.epochs) {
      throw InputError(
          fmt::format("averaging.start_epoch = {} leaves nothing to average in {} epochs "
                      "(train.epochs). Lower it, or set averaging.kind = \"none\".",
                      plan.averaging.start_epoch, plan.train.epochs));
    }
  }
  void begin(const Training& training) override {
    averaging_.emplace(training.plan.averaging, training.strategy);
  }
  void after_update(const Training& training, StepResult& /*step*/) override {
    const TrainState& state = training.state;
    if (averaging_->begins_after(state.step, state.epoch)) training.strategy.broadcast_buffers();
    averaging_->after_step(state.step, state.epoch);
  }
  void after_epoch(const Training& training) override {
    averaging_->after_epoch(training.state.epoch);
    if (averaging_->has_begun() && averaging_->wants_update_bn()) update_bn(training);
  }
  void before_evaluation(const Training& /*training*/) override { in_use_.emplace(averaging_); }
  void after_evaluation(const Training& /*training*/) noexcept override { in_use_.reset(); }

  void save(PartState& state) const override {
    CheckpointContents& checkpoint = state.checkpoint();
    insert_trained(checkpoint.model, checkpoint.optimizer);
    checkpoint.model = averaging_->state_dict();
    state.set_count(updates_averaged, averaging_->n_averaged());
  }
  void restore(const Training& /*training*/, PartState& state) override {
    try {
      averaging_->restore(state.checkpoint().model, state.count(updates_averaged).value_or(0));
    } catch (const Error& error) {
      throw CheckpointError(
          fmt::format("the checkpoint does not fit the deck's model: {}", error.what()));
    }
  }

 private:
  /// Over the training set's inputs, as in a whole epoch. Collective.
  void update_bn(const Training& training) {
    const RunPlan& plan = training.plan;
    const Task& task = training.task;
    const Autocast autocast(plan.train.precision);
    const LayoutGuard layout(plan.run.layout);
    // Each rank forwards its share of each batch. With reduction = "invariant" every rank forwards
    // all, in the same batches on any number of ranks.
    const bool whole = plan.ddp.shards > 0;
    const int rank = whole ? 0 : training.data_group->rank();
    const BatchPlan batches(training.batches.samples(), training.batches.batch_size(),
                            whole ? 1 : training.data_group->size(), plan.train.drop_last);
    Loader loader(
        task.data().train,
        std::make_unique<TrainBatches>(
            batches, rank, make_order(task.data(), plan.train.seed, task.loading().shuffle)),
        task.loading().prefetch, task.data().augmentation, plan.device);
    loader.start_epoch(training.state.epoch);
    const bool all_go_forward = training.strategy.all_go_forward();
    averaging_->update_bn(whole ? nullptr : training.data_group.get(), [&] {
      if (!loader.has_next()) return false;
      const Share share = batches.share(loader.next_step(), rank);
      const nn::RandomContextGuard random(
          {plan.train.seed, static_cast<std::uint32_t>(training.state.step), share.first_in_batch});
      const Batch& batch = loader.next();
      if (share.size() > 0 || all_go_forward) static_cast<void>(training.strategy.evaluate(batch));
      return true;
    });
  }

  std::optional<WeightAveraging> averaging_;
  std::optional<WeightAveraging::InUse> in_use_;
};

}  // namespace

std::shared_ptr<TrainingPart> make_averaging_part(const RunPlan& plan) {
  const bool averages = plan.averaging.kind != AveragingOptions::Kind::none;
  return averages ? std::make_shared<AveragingPart>() : nullptr;
}

}  // namespace lockstep::train
