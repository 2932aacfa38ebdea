#include <optional>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {
namespace {

/// The part for ddp.comm_hook = "post_local_sgd": averages the ranks' models.
class LocalSgdPart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "local_sgd"; }

  void begin(const Training& training) override {
    const LocalSgdOptions& options = training.plan.ddp.local_sgd;
    averager_.emplace(training.strategy.ddp()->flat_values(), training.data_group, options.period,
                      options.start_step);
  }
  void restore(const Training& training, PartState& /*state*/) override {
    averager_->set_step(training.state.step);
  }
  void after_update(const Training& /*training*/, StepResult& step) override {
    const double before = averager_->seconds();
    step.ranks_met = averager_->average_parameters() || step.ranks_met;
    step.times.communication += averager_->seconds() - before;
  }
  void before_evaluation(const Training& /*training*/) override { averager_->average_now(); }
  [[nodiscard]] bool ranks_are_equal() const override { return !averager_->is_local(); }
  void before_save(const Training& training) override {
    if (!averager_->is_local()) return;
    averager_->average_now();
    for (const auto& entry : training.optimizer.state_dict()) {
      const auto op = is_floating(entry.tensor.dtype()) ? ReduceOp::avg : ReduceOp::max;
      training.data_group->all_reduce(entry.tensor, op).wait();
    }
  }

 private:
  std::optional<PeriodicModelAverager> averager_;
};

}  // namespace

std::shared_ptr<TrainingPart> make_local_sgd_part(const RunPlan& plan) {
  return ranks_go_apart(plan) ? std::make_shared<LocalSgdPart>() : nullptr;
}

}  // namespace lockstep::train
