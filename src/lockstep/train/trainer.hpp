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
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/run/stop_request.hpp>
#include <lockstep/train/step_figures.hpp>
#include <lockstep/train/task/outcome.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep {
class Batch;
class CheckpointFile;
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
class StepGraph;
struct StepWork;
class StopAgreement;
class Strategy;
class Task;

/// The distributed SGD loop: batches, steps, epochs, evaluations. Parts (TrainingPart) do
/// everything else: first the library's own that the plan uses, then the caller's. All public
/// functions are collective over the group.
class Trainer {
 public:
  /// Builds the model (after nn::manual_seed), broadcasts it, and makes loaders, optimizer and
  /// parts. `parts` belong to this training alone. Throws what check() throws.
  Trainer(std::shared_ptr<ProcessGroup> group, const Task& task, const RunPlan& plan,
          std::vector<std::pair<std::string, std::string>> library_versions = {},
          const TrainingParts& parts = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Throws InputError if options, data, model, parts and the number of ranks do not fit together.
  /// Local: ranks should agree on its result before they construct a Trainer.
  static void check(const Task& task, const RunPlan& plan, int ranks = 1,
                    const TrainingParts& parts = {});

  /// Resumes from a checkpoint. Throws CheckpointError for another model's, InputError if the deck
  /// contradicts it.
  void restore(const CheckpointContents& checkpoint);
  /// Whether all epochs are done, or a part has ended the run.
  [[nodiscard]] bool is_over() const;
  /// Throws what restore() throws for a file of another model or seed, or from the middle of an
  /// epoch of other samples, without reading tensors. Local.
  void expect_continues(const CheckpointFile& file) const;
  /// The state that load_checkpoint_in_place() should fill for restore(), for a file with that
  /// manifest: slots of the optimizer, and this rank's share of the communication hook's state.
  [[nodiscard]] StateDict slots_to_load(const Manifest& manifest) const;

  /// Trains to the last epoch, or until a part ends it (train.early_stop_patience), or until there
  /// is a reason to stop, checked after each step (see StopAgreement; with ddp.comm_hook =
  /// "post_local_sgd" after the steps that average) and each batch of an evaluation. If the
  /// restored state lacks the evaluation of its epoch, begins with that. Writes metrics and
  /// checkpoints into `folder`; `deck` is stored in checkpoints. `resumed_from` is the file of the
  /// restored state: checkpoints in `folder` that are not in its past are moved aside (see
  /// RunCheckpoints). Throws AgreedError with ExitCode::checkpoint if the final checkpoint could
  /// not be saved, or the folder is lost; with ExitCode::failure if the ranks' states differ
  /// (train.check_replicas_every). Unless train.on_nan is "ignore", throws NonFiniteLoss on a rank
  /// whose loss is not finite, and AgreedError with ExitCode::failure if the test loss, or the
  /// state to be saved, is not finite.
  Outcome run(const RunFolder& folder, MetricsFile& metrics, Console& console,
              const std::string& deck,
              const std::optional<std::filesystem::path>& resumed_from = {});

  /// One optimizer step on the next batch, the body of run()'s loop: for benchmarks and tests.
  /// Returns this rank's summed loss over its samples (with train.reduction "invariant", all ranks'
  /// on rank 0 and 0 elsewhere). Call start_epoch first.
  double step() { return take_step(true).loss_sum; }
  /// Puts the model into training mode, except modules that the task or a user of model() has put
  /// into evaluation mode.
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  /// Mean loss and the task's metrics on the set that epochs are judged by (judged_by), the same
  /// bits for any number of ranks; with averaged weights if [averaging] has any. Throws InputError
  /// if there is none.
  [[nodiscard]] Evaluation evaluate();

  /// This rank's part of the model. Local, as the next five.
  [[nodiscard]] nn::Module& model() const noexcept;
  /// This rank's share of each of the model's tensors, as checkpoints take it.
  [[nodiscard]] StateDict state_dict() const;
  /// Elements of the parameters of the whole model, of which each rank may hold a part.
  [[nodiscard]] std::int64_t parameter_count() const;
  [[nodiscard]] const optim::Optimizer& optimizer() const noexcept;
  [[nodiscard]] std::int64_t steps_an_epoch() const noexcept { return batches_.steps(); }
  [[nodiscard]] const TrainState& state() const noexcept { return state_; }

 private:
  class InRun;

  /// With `reads_loss` the result has this step's figures; on a device the host then waits for
  /// them.
  StepResult take_step(bool reads_loss);
  /// Adds figures to `step` and epoch_loss_, for all steps except the newest `left`.
  void read_figures(StepResult& step, std::int64_t left);
  /// Gradients of a shard of this rank, in train.accumulate parts; adds losses to `work`, times to
  /// `step`.
  void backward(const Share& part, const Batch& samples, StepWork& work, StepResult& step);
  /// Gradients of all shards, and the update of the parameters.
  void compute(std::int64_t number, const Batch& batch, StepWork& work, StepResult& step);
  /// The same by a graph.
  const StepWork& replay(const Batch& batch, StepResult& step);
  /// Those of a step that is traced phase by phase: not of one that is captured.
  [[nodiscard]] DeviceSpans* spans_of_phases();
  /// Reason to end before its last step; none if it did not.
  StopReason train_epoch(RunReport& report, RunStates& states);
  /// Reason to end before its evaluation was complete; none if it is.
  [[nodiscard]] StopReason finish_epoch(RunReport& report, RunStates& states);
  /// Evaluates the model that the parts choose on a set. Nothing if `goes_on` was false.
  [[nodiscard]] std::optional<Evaluation> evaluate(Evaluator& evaluator,
                                                   const std::function<bool()>& goes_on);
  /// In run(): the same, until any rank has a reason to stop; stop_ then says which. Saves the
  /// state if a rank cannot evaluate its samples, and throws AgreedError.
  [[nodiscard]] std::optional<Evaluation> evaluate_until_stop(Evaluator& evaluator,
                                                              RunStates& states);
  /// The same, with a report.
  [[nodiscard]] std::optional<Evaluation> report_evaluation(Evaluator& evaluator, const char* set,
                                                            RunReport& report, RunStates& states);
  /// Whether the last finished epoch was not evaluated before the run stopped.
  [[nodiscard]] bool lacks_evaluation() const noexcept;
  /// Keeps the epoch's evaluation for the next checkpoint, and tells the parts.
  void take(const Evaluation& found);

  /// In run(): this rank's reason to stop at this point of a step. Local.
  [[nodiscard]] StopReason own_reason_to_stop() const;
  /// The deck's own end of this start; the same on all ranks, without communication.
  [[nodiscard]] StopReason planned_stop() const noexcept;
  /// In run(): all ranks are at the same point, and get stop_->answer(). Collective.
  void ask_whether_to_stop();

  void expect_continues(const TrainState& saved) const;
  /// Throws InputError if `slots` are those of another kind of optimizer, as `deck_then` says.
  void load_optimizer(const std::string& deck_then, const StateDict& slots);
  /// Collective.
  [[nodiscard]] CheckpointContents contents(const std::string& deck);
  /// The state from which the communication hook resumes.
  [[nodiscard]] StateDict hook_state() const;
  /// The state of parts_[i] in a checkpoint.
  [[nodiscard]] PartState state_of(std::size_t i, CheckpointContents& checkpoint) const;

  RankGroups ranks_;
  const Task& task_;
  std::unique_ptr<const RunPlan> plan_;
  std::vector<std::pair<std::string, std::string>> library_versions_;
  BatchPlan batches_;
  std::unique_ptr<Loader> loader_;
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<Evaluator> judge_;  ///< on judged_by(data)
  std::unique_ptr<Evaluator> test_;   ///< if that is not the test set
  std::shared_ptr<ParameterUpdate> update_;
  TrainingParts parts_;        ///< the library's, the last of them update_, and the caller's
  std::size_t callers_parts_;  ///< number of the caller's parts
  TrainState state_;
  StepFigures figures_;
  std::unique_ptr<StepGraph> graph_;
  StepResult unseen_;      ///< holds figures read between two steps
  double epoch_loss_ = 0;  ///< this rank's summed loss of the unfinished epoch
  Training training_;
  StepClock clock_;
  std::unique_ptr<StopAgreement> stop_;
  Clock::time_point step_start_;
};

}  // namespace lockstep::train
