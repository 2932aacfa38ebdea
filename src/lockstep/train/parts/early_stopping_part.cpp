#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/parts/early_stopping.hpp>
#include <lockstep/train/parts/figures.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/report/report.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// Names of its state in checkpoints.
constexpr const char *best_figure = "early_stop_best", *epochs_without_better = "early_stop_epochs";

/// The part for train.early_stop_patience.
class EarlyStoppingPart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "early_stopping"; }

  void check(const Task& task, const RunPlan& plan) const override {
    static_cast<void>(rule(task, plan.train));
  }
  void begin(const Training& training) override {
    rule_.emplace(rule(training.task, training.plan.train));
  }
  void evaluated(const Training& training, const Evaluation& found) override {
    const TrainOptions& options = training.plan.train;
    rule_->see(figure_named(found, options.early_stop_metric));
    if (!rule_->is_over() || training.group->rank() != 0) return;
    log(LogLevel::info,
        fmt::format("early stopping: {} {} has not improved on {} for {} epochs "
                    "(train.early_stop_patience)",
                    judging_set(training.task.data()), options.early_stop_metric,
                    rule_->best() ? in_figures(*rule_->best()) : "nan", rule_->epochs_without()));
  }
  [[nodiscard]] bool is_over() const override { return rule_->is_over(); }

  void save(PartState& state) const override {
    if (rule_->best()) state.set_number(best_figure, *rule_->best());
    state.set_count(epochs_without_better, rule_->epochs_without());
  }
  void restore(const Training& training, PartState& state) override {
    // A best figure of another metric is of no use, so the count begins anew.
    Deck then = Deck::parse(state.checkpoint().deck, "the deck in the checkpoint");
    const TrainOptions& now = training.plan.train;
    if (then.read<TrainOptions>("train").early_stop_metric != now.early_stop_metric) return;
    rule_->restore(state.number(best_figure), state.count(epochs_without_better).value_or(0));
  }
  void end_run(const Training& /*training*/, Outcome& outcome) override {
    outcome.early_stopping = rule_->is_over();
  }

 private:
  static EarlyStopping rule(const Task& task, const TrainOptions& options) {
    return {options.early_stop_patience, options.early_stop_min_delta,
            greater_is_better(task, options.early_stop_metric, "train.early_stop_metric")};
  }

  std::optional<EarlyStopping> rule_;
};

}  // namespace

std::shared_ptr<TrainingPart> make_early_stopping_part(const RunPlan& plan) {
  return plan.train.early_stop_patience > 0 ? std::make_shared<EarlyStoppingPart>() : nullptr;
}

}  // namespace lockstep::train
