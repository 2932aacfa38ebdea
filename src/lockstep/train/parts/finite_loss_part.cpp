#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_saves.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// ": conv1.weight is not finite either", if one of the tensors is not.
std::string culprit(const StateDict& state) {
  const auto at =
      std::ranges::find_if(state, [](const auto& entry) { return !all_finite(entry.tensor); });
  return at == state.end() ? "" : fmt::format(": {} is not finite either", at->name);
}

bool has_checkpoint(const Training& training) {
  return training.folder && !list_checkpoints(training.folder->checkpoints()).empty();
}

/// train.on_nan = "stop": a loss that is not finite ends the run.
class FiniteLossPart final : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "finite_loss"; }

  void after_step(const Training& training, const StepResult& step) override {
    if (!step.not_finite) return;
    throw NonFiniteLoss(fmt::format("the loss is {} at step {} (epoch {}). {} {}", *step.not_finite,
                                    step.not_finite_step, training.state.epoch + 1,
                                    remedy_for_not_finite,
                                    has_checkpoint(training) ? "The last checkpoint is from before."
                                                             : "No checkpoint was saved before."));
  }
  void evaluated(const Training& training, const Evaluation& found) override {
    expect_finite(training, judging_set(training.task.data()), found.loss,
                  "Earlier checkpoints are unchanged: --resume=FILE takes one of them.");
  }
  void end_run(const Training& training, Outcome& outcome) override {
    if (outcome.stopped != StopReason::none || !outcome.test || !training.task.data().validation)
      return;
    expect_finite(training, "test", outcome.test->loss,
                  saves_checkpoints(training.plan.checkpoint)
                      ? "The weights themselves are finite, and saved."
                      : "The weights themselves are finite.");
  }

 private:
  static void expect_finite(const Training& training, const char* set, double loss,
                            const char* what_of_saves) {
    if (std::isfinite(loss)) return;
    throw AgreedError(
        fmt::format("the {} loss is {} after step {} (epoch {}){}. {} {}", set, loss,
                    training.state.step, training.state.epoch, culprit(training.model.state_dict()),
                    remedy_for_not_finite, what_of_saves),
        ExitCode::failure);
  }
};

}  // namespace

std::shared_ptr<TrainingPart> make_finite_loss_part(const RunPlan& plan) {
  const bool stops = plan.train.on_nan == TrainOptions::OnNan::stop;
  return stops ? std::make_shared<FiniteLossPart>() : nullptr;
}

}  // namespace lockstep::train
