#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/run/stop_request.hpp>
#include <lockstep/train/step_figures.hpp>
#include <lockstep/train/task/outcome.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep {
class Batch;
class CheckpointFile;
class DistributedDataParallel;
class Loader;
class ProcessGroup;
struct Manifest;
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace lockstep

namespace lockstep::train {

class Console;
class Evaluator;
class MetricsFile;
class ParameterUpdate;
class RunFolder;
struct RunPlan;
class RunReport;
class RunStates;
class StopAgreement;
class Task;

/// The distributed SGD loop: batches, steps, epochs, evaluations. What else a training does is done
/// by parts (TrainingPart): the library's own that the plan asks for, and then those it is given.
/// Everything public is collective over the group.
class Trainer {
 public:
  /// Builds the model (after nn::manual_seed), broadcasts it, and makes loaders, optimizer and
  /// parts. `parts` are this training's alone. Throws what check() throws.
  Trainer(std::shared_ptr<ProcessGroup> group, const Task& task, const RunPlan& plan,
          std::vector<std::pair<std::string, std::string>> library_versions = {},
          const TrainingParts& parts = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Throws InputError where options, data, model, parts and the number of ranks do not fit each
  /// other. Local: what all ranks should agree on before they construct a Trainer.
  static void check(const Task& task, const RunPlan& plan, int ranks = 1,
                    const TrainingParts& parts = {});

  /// Goes on from a checkpoint instead of from the beginning. Throws CheckpointError for another
  /// model's, InputError where the deck contradicts it.
  void restore(const CheckpointContents& checkpoint);
  /// Throws what restore() does for a file of another model or seed, or from the middle of an epoch
  /// of other samples; looks at no tensor's bytes. Local.
  void expect_continues(const CheckpointFile& file) const;
  /// What load_checkpoint_in_place() should fill for restore(), of a file with that manifest: slots
  /// of the optimizer, and what this rank takes over of the communication hook's state.
  [[nodiscard]] StateDict slots_to_load(const Manifest& manifest) const;

  /// Trains to the last epoch, or until a part says that it is over (train.early_stop_patience), or
  /// until a reason to stop is seen, which is looked at after each
  /// step (see StopAgreement; with ddp.comm_hook = "post_local_sgd" after those that average).
  /// Writes metrics and checkpoints into `folder`; `deck` is stored in checkpoints. `resumed_from`
  /// is the file of what was restored: checkpoints in `folder` that are not of its past are moved
  /// aside (see RunCheckpoints). Throws AgreedError with ExitCode::checkpoint if the final
  /// checkpoint could not be saved, or the folder is lost; with ExitCode::failure if the ranks'
  /// states were found to differ (train.check_replicas_every). Unless train.on_nan is "ignore",
  /// NonFiniteLoss on a rank whose loss is not finite, and AgreedError with ExitCode::failure if
  /// the test loss is not, or the state when it is to be saved.
  Outcome run(const RunFolder& folder, MetricsFile& metrics, Console& console,
              const std::string& deck,
              const std::optional<std::filesystem::path>& resumed_from = {});

  /// One optimizer step on the next batch; returns this rank's summed loss over its samples (with
  /// train.reduction "invariant", all ranks' on rank 0 and 0 elsewhere). What run() repeats: for
  /// benchmarks and tests. Call start_epoch first.
  double step() { return take_step(true).loss_sum; }
  /// The model trains, but for parts of it that the task or who holds model() has put into
  /// evaluation mode.
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  /// Mean loss and the task's metrics on the set that epochs are judged by (judged_by), the same
  /// bits for any number of ranks; of averaged weights where [averaging] keeps some. Throws
  /// InputError if there is none.
  [[nodiscard]] Evaluation evaluate();

  [[nodiscard]] nn::Module& model() const noexcept;
  [[nodiscard]] const optim::Optimizer& optimizer() const noexcept { return *optimizer_; }
  [[nodiscard]] std::int64_t steps_an_epoch() const noexcept { return batches_.steps(); }
  [[nodiscard]] const TrainState& state() const noexcept { return state_; }

 private:
  class InRun;

  /// With `reads_loss` the result has this step's figures, for which the host waits on a device.
  StepResult take_step(bool reads_loss);
  /// Into `step` and epoch_loss_, of all steps but the newest `left`.
  void read_figures(StepResult& step, std::int64_t left);
  /// Gradients of a shard of this rank, in train.accumulate parts; loss and times are added to
  /// `step`.
  void backward(const Share& part, const Batch& samples, StepResult& step);
  /// Why it ended before its last step; none if it did not.
  StopReason train_epoch(RunReport& report, RunStates& states);
  void finish_epoch(RunReport& report);
  /// The model on a set, as the parts have it evaluated.
  [[nodiscard]] Evaluation evaluate(Evaluator& evaluator);
  [[nodiscard]] bool is_over() const;

  /// In run(): of this rank, at this moment of a step. Local.
  [[nodiscard]] StopReason own_reason_to_stop() const;
  /// In run(): all ranks are at the same place; the answer is stop_->answer(). Collective.
  void ask_whether_to_stop();

  void expect_continues(const TrainState& saved) const;
  /// Without a communication hook's state where not all ranks take part in a save. Collective.
  [[nodiscard]] CheckpointContents contents(const std::string& deck, bool of_all_ranks);
  /// What the communication hook goes on from.
  [[nodiscard]] StateDict hook_state() const;
  /// Of parts_[i], in a checkpoint.
  [[nodiscard]] PartState state_of(std::size_t i, CheckpointContents& checkpoint) const;

  std::shared_ptr<ProcessGroup> group_;
  const Task& task_;
  std::unique_ptr<const RunPlan> plan_;
  std::vector<std::pair<std::string, std::string>> library_versions_;
  BatchPlan batches_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<DistributedDataParallel> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<Evaluator> judge_;  ///< on judged_by(data)
  std::unique_ptr<Evaluator> test_;   ///< where that is not the test set
  std::shared_ptr<ParameterUpdate> update_;
  TrainingParts parts_;        ///< the library's, update_ the last of them, and the caller's
  std::size_t callers_parts_;  ///< how many are the caller's
  TrainState state_;
  StepFigures figures_;
  StepResult unseen_;      ///< has what was read of figures between two steps
  double epoch_loss_ = 0;  ///< this rank's summed loss of the unfinished epoch
  Training training_;
  StepClock clock_;
  std::unique_ptr<StopAgreement> stop_;
  Clock::time_point step_start_;
};

}  // namespace lockstep::train
