#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep {
class BatchPlan;
class Deck;
class ProcessGroup;
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace lockstep

namespace lockstep::train {

class MetricsFile;
struct MetricsRow;
class RunFolder;
class Task;
struct RunPlan;
class Strategy;

/// The training that a part belongs to: its components and its progress. The same object at every
/// moment; only what Trainer::run() sets changes.
struct Training {
  std::shared_ptr<ProcessGroup> group;  ///< all ranks
  /// The ranks that share out the batch, with equal parts of the model; others compute the same
  /// samples as one of them.
  std::shared_ptr<ProcessGroup> data_group;
  const Task& task;
  const RunPlan& plan;  ///< as carried out: with the number of shards
  const BatchPlan& batches;
  Strategy& strategy;
  nn::Module& model;  ///< this rank's part
  optim::Optimizer& optimizer;
  const TrainState& state;
  /// In Trainer::run(); else null. On ranks other than 0 the metrics are empty.
  const RunFolder* folder = nullptr;
  const MetricsFile* metrics = nullptr;
  const std::string* deck = nullptr;  ///< as checkpoints store it
};

/// One step on this rank.
struct StepResult {
  /// Sum over the samples of this rank; with train.reduction "invariant" all ranks' on rank 0, and
  /// 0 elsewhere.
  double loss_sum = 0;
  /// The step that loss_sum and grad_norm belong to, from 1. On a device the host reads them of
  /// most steps after the next one, so as not to wait: then the one before, or 0 for none. In
  /// after_update they are not available yet.
  std::int64_t loss_step = 0;
  std::optional<double> not_finite;  ///< a mean loss of this rank was not finite
  std::int64_t not_finite_step = 0;  ///< the step of that loss
  double grad_norm = -1;             ///< of the whole gradient before clipping; -1: not measured
  StepTimes times;                   ///< of this rank; times.samples is all ranks'
  /// Set by a part that has just communicated with all ranks: they may agree here whether to stop.
  bool ranks_met = false;
};

/// State of one part in a checkpoint: numbers, bit for bit, and tensors, by names of the part's
/// own. Numbers are rank 0's; tensors must be the same on all ranks.
class PartState {
 public:
  /// State of the part `name` in `checkpoint`. An empty name is for the library's own parts: their
  /// names are stored without a prefix (docs/reference/checkpoint_format.md).
  PartState(CheckpointContents& checkpoint, const std::string& part);

  /// Throw Error for a name already in use.
  void set_number(const std::string& name, double value);
  void set_count(const std::string& name, std::int64_t value);
  void set_tensor(const std::string& name, const Tensor& value);
  /// Nothing, or an undefined tensor, if the checkpoint has none: it was written without the part,
  /// or before the part saved this.
  [[nodiscard]] std::optional<double> number(const std::string& name) const;
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& name) const;
  [[nodiscard]] Tensor tensor(const std::string& name) const;

  /// The whole saved or restored state: for a part that replaces the model itself.
  [[nodiscard]] CheckpointContents& checkpoint() const noexcept { return checkpoint_; }

 private:
  CheckpointContents& checkpoint_;
  std::string prefix_, tensor_prefix_;
};

/// `optimizer` without the parts' tensors, which are stored beside the optimizer's.
[[nodiscard]] StateDict without_part_tensors(const StateDict& optimizer);

/// A part of a training beside its steps: a schedule, early stopping, averaged weights, a check.
/// The Trainer has a list of parts, and calls each at these moments, in the list's order:
///   begin                            once, with the model and optimizer made
///   restore                          of a run that goes on from a checkpoint
///   start_run                        Trainer::run() begins
///     before_step, after_update, after_step
///     after_epoch
///       before_evaluation, after_evaluation
///     evaluated
///     before_save, save              of each checkpoint that is due
///   reported                         rank 0 has written a row of metrics
///   saved                            a checkpoint is complete
///   end_run                          training, tests and saves are done
/// The default of every function does nothing. All ranks have the same parts and call them at the
/// same moments, so a part may communicate, except where "Local" is said. An exception of a part
/// ends the run; if not all ranks throw the same, the others are notified as of any failure.
class TrainingPart {
 public:
  TrainingPart() = default;
  TrainingPart(const TrainingPart&) = delete;
  TrainingPart& operator=(const TrainingPart&) = delete;
  virtual ~TrainingPart() = default;

  /// The name of the part's state in checkpoints: letters, digits and underscores; unique.
  [[nodiscard]] virtual std::string name() const = 0;

  /// Throws InputError if the part does not fit the task or the plan. Before begin(). Local.
  virtual void check(const Task& /*task*/, const RunPlan& /*plan*/) const {}
  virtual void begin(const Training& /*training*/) {}
  virtual void start_run(const Training& /*training*/) {}

  /// `training.state.step` steps are done. The learning rate of the next one is already set.
  virtual void before_step(const Training& /*training*/) {}
  /// The optimizer has updated the parameters, and the step is counted. Its time is part of the
  /// step's; a part adds its communication to step.times. Allocates nothing.
  virtual void after_update(const Training& /*training*/, StepResult& /*step*/) {}
  /// The step has ended. Its time is not part of the step's. Allocates nothing in most steps.
  virtual void after_step(const Training& /*training*/, const StepResult& /*step*/) {}
  /// `training.state.epoch` epochs are finished; their evaluation follows, in this run or, if it is
  /// stopped during the evaluation, at the begin of the run that resumes.
  virtual void after_epoch(const Training& /*training*/) {}
  /// Around each evaluation, also of the test set: the model may be replaced meanwhile.
  virtual void before_evaluation(const Training& /*training*/) {}
  virtual void after_evaluation(const Training& /*training*/) noexcept {}
  /// The epoch's evaluation; the same on all ranks. Not called without a set to judge by, nor if
  /// the run is stopped meanwhile.
  virtual void evaluated(const Training& /*training*/, const Evaluation& /*found*/) {}
  /// Called after each epoch, and before the first; the same on all ranks. True: the training is
  /// complete.
  [[nodiscard]] virtual bool is_over() const { return false; }

  /// False while each rank has a model of its own.
  [[nodiscard]] virtual bool ranks_are_equal() const { return true; }
  /// Makes the ranks' states equal, so that each can write its share.
  virtual void before_save(const Training& /*training*/) {}
  virtual void save(PartState& /*state*/) const {}
  /// Restores what save() set. training.state is the checkpoint's; the model's and optimizer's
  /// tensors follow. Local.
  virtual void restore(const Training& /*training*/, PartState& /*state*/) {}

  /// A row of metrics.jsonl is written: after a step, an epoch or an evaluation. On rank 0 only.
  /// Local.
  virtual void reported(const Training& /*training*/, const MetricsRow& /*row*/) {}
  /// The checkpoint of that step is in the run folder. With asynchronous saves ranks learn of it
  /// after different steps. Local.
  virtual void saved(const Training& /*training*/, std::int64_t /*step*/) {}

  /// The run has ended, as outcome.stopped says; the part may add to the outcome.
  virtual void end_run(const Training& /*training*/, Outcome& /*outcome*/) {}
};

using TrainingParts = std::vector<std::shared_ptr<TrainingPart>>;

/// Makes a program's own part from its deck: reads the part's table, if it has one. Throws
/// InputError. Local.
using PartFactory = std::function<std::shared_ptr<TrainingPart>(Deck&)>;

/// Throws InputError if a part is null, or two have the same name.
void expect_names(const TrainingParts& parts);

}  // namespace lockstep::train
