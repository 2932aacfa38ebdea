#include <algorithm>
#include <optional>

#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/optim/plateau.hpp>
#include <lockstep/train/parts/figures.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// Where ReduceLROnPlateau stands, in checkpoints.
constexpr const char *plateau_lr = "plateau_lr", *plateau_best = "plateau_best",
                     *plateau_bad_epochs = "plateau_bad_epochs",
                     *plateau_cooldown = "plateau_cooldown";

/// [schedule]: the learning rate of each step.
class SchedulePart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "schedule"; }

  void check(const Task& task, const RunPlan& plan) const override {
    static_cast<void>(plateau_of(task, plan));
  }
  void begin(const Training& training) override {
    plateau_ = plateau_of(training.task, training.plan);
    schedule_ = optim::make_schedule(training.plan.schedule, training.plan.train.epochs,
                                     training.batches.steps());
  }
  void before_step(const Training& training) override { apply(training, training.state.step); }
  void evaluated(const Training& training, const Evaluation& found) override {
    if (plateau_) plateau_->step(figure_named(found, metric_of(training.plan.schedule)));
  }

  void save(PartState& state) const override {
    if (!plateau_) return;
    const auto& at = plateau_->state();
    state.set_number(plateau_lr, at.lr);
    if (at.best) state.set_number(plateau_best, *at.best);
    state.set_count(plateau_bad_epochs, at.bad_epochs);
    state.set_count(plateau_cooldown, at.cooldown);
  }
  void restore(const Training& training, PartState& state) override {
    if (plateau_) {
      auto at = plateau_->state();
      at.lr = state.number(plateau_lr).value_or(at.lr);
      // A best figure says nothing to another metric, which begins anew.
      Deck then = Deck::parse(state.checkpoint().deck, "the deck in the checkpoint");
      if (metric_of(then.read<optim::ScheduleOptions>("schedule")) ==
          metric_of(training.plan.schedule)) {
        at.best = state.number(plateau_best);
        at.bad_epochs = state.count(plateau_bad_epochs).value_or(0);
      }
      at.cooldown = state.count(plateau_cooldown).value_or(0);
      plateau_->restore(at);
    }
    // Of the last step: the epoch's row tells its rate.
    if (training.state.position > 0) apply(training, training.state.step - 1);
  }

 private:
  /// Empty unless schedule.kind = "plateau".
  static std::string metric_of(const optim::ScheduleOptions& schedule) {
    const auto* plateau = schedule.kind.get_if<optim::PlateauOptions>();
    return plateau ? plateau->metric : "";
  }
  static std::optional<optim::ReduceLROnPlateau> plateau_of(const Task& task, const RunPlan& plan) {
    const auto* wanted = plan.schedule.kind.get_if<optim::PlateauOptions>();
    if (!wanted) return std::nullopt;
    optim::PlateauOptions options = *wanted;
    options.greater_is_better = greater_is_better(task, options.metric, "schedule.metric");
    return optim::ReduceLROnPlateau(options, plan.optimizer.lr());
  }

  void apply(const Training& training, std::int64_t steps) const {
    optim::apply_schedule(*schedule_, plateau_ ? plateau_->lr() : training.optimizer.initial_lr(),
                          training.state.epoch, steps, training.optimizer);
  }

  std::unique_ptr<optim::Schedule> schedule_;  // since begin()
  std::optional<optim::ReduceLROnPlateau> plateau_;
};

}  // namespace

std::shared_ptr<TrainingPart> make_schedule_part(const RunPlan& /*plan*/) {
  return std::make_shared<SchedulePart>();
}

}  // namespace lockstep::train
