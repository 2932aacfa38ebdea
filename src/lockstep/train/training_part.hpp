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
class DistributedDataParallel;
class ProcessGroup;
namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}
}  // namespace lockstep

namespace lockstep::train {

class RunFolder;
class Task;
struct RunPlan;

/// The training that a part belongs to: what it works with, and where it stands. The same object
/// at every moment, of which only `folder` changes.
struct Training {
  std::shared_ptr<ProcessGroup> group;
  const Task& task;
  const RunPlan& plan;  ///< as it is carried out: with the number of shards
  const BatchPlan& batches;
  DistributedDataParallel& ddp;
  nn::Module& model;
  optim::Optimizer& optimizer;
  const TrainState& state;
  const RunFolder* folder = nullptr;  ///< in Trainer::run(); else null
};

/// One step, as this rank saw it.
struct StepResult {
  /// Summed over the samples of this rank; with train.reduction "invariant" all ranks' on rank 0,
  /// and 0 elsewhere.
  double loss_sum = 0;
  /// The step that loss_sum and grad_norm are of, from 1. On a device the host reads them of most
  /// steps after the next one, so as not to wait: then the one before, or 0, for none. In
  /// after_update they are not there yet.
  std::int64_t loss_step = 0;
  std::optional<double> not_finite;  ///< a mean loss of this rank that is not finite
  std::int64_t not_finite_step = 0;  ///< the step that it is of
  double grad_norm = -1;             ///< of the whole gradient before clipping; -1: not measured
  StepTimes times;                   ///< of this rank; times.samples are all ranks'
  /// Set by a part that has just communicated with all ranks: they may agree here whether to stop.
  bool ranks_met = false;
};

/// What a checkpoint keeps of one part: numbers, bit for bit, and tensors, by names of the part's
/// own. Numbers are rank 0's; tensors must be the same on all ranks.
class PartState {
 public:
  /// Of the part of that name in `checkpoint`. An empty one is for the library's own parts: their
  /// names stand in the file as they are (docs/reference/checkpoint_format.md).
  PartState(CheckpointContents& checkpoint, const std::string& part);

  /// Throw Error if there is one of that name.
  void set_number(const std::string& name, double value);
  void set_count(const std::string& name, std::int64_t value);
  void set_tensor(const std::string& name, const Tensor& value);
  /// Nothing, or an undefined tensor, where the checkpoint has none: it was written without the
  /// part, or before it kept this.
  [[nodiscard]] std::optional<double> number(const std::string& name) const;
  [[nodiscard]] std::optional<std::int64_t> count(const std::string& name) const;
  [[nodiscard]] Tensor tensor(const std::string& name) const;

  /// All that is saved, or restored: for a part by which the model itself becomes another one.
  [[nodiscard]] CheckpointContents& checkpoint() const noexcept { return checkpoint_; }

 private:
  CheckpointContents& checkpoint_;
  std::string prefix_, tensor_prefix_;
};

/// `optimizer` without what parts keep of tensors, which lies beside the optimizer's.
[[nodiscard]] StateDict without_part_tensors(const StateDict& optimizer);

/// Something that a training does beside its steps: a schedule, early stopping, averaged weights, a
/// check. The Trainer holds a list of parts, and calls each at these moments, in the list's order:
///   begin                            once, with the model and optimizer made
///   restore                          of a run that goes on from a checkpoint
///   start_run                        Trainer::run() begins
///     before_step, after_update, after_step
///     after_epoch
///       before_evaluation, after_evaluation
///     evaluated
///     before_save, save              of each checkpoint that is due
///   end_run                          all is trained, tested and saved
/// Every moment does nothing unless a part overrides it. All ranks have the same parts and call
/// them at the same moments, so that a part may communicate, but where "Local" is said. What a part
/// throws ends the run; if not all ranks throw the same, the others are told as of any failure.
class TrainingPart {
 public:
  TrainingPart() = default;
  TrainingPart(const TrainingPart&) = delete;
  TrainingPart& operator=(const TrainingPart&) = delete;
  virtual ~TrainingPart() = default;

  /// Under which checkpoints keep what save() sets: letters, digits and underscores; no other
  /// part's.
  [[nodiscard]] virtual std::string name() const = 0;

  /// Throws InputError where the part does not fit the task or the plan. Before begin(). Local.
  virtual void check(const Task& /*task*/, const RunPlan& /*plan*/) const {}
  virtual void begin(const Training& /*training*/) {}
  virtual void start_run(const Training& /*training*/) {}

  /// `training.state.step` steps are done. The learning rate of the next one is set already.
  virtual void before_step(const Training& /*training*/) {}
  /// The optimizer has updated the parameters, and the step is counted. Its time is the step's:
  /// what of it is communication a part adds to step.times. Allocates nothing.
  virtual void after_update(const Training& /*training*/, StepResult& /*step*/) {}
  /// The step is over. Its time is not the step's. Allocates nothing in most steps.
  virtual void after_step(const Training& /*training*/, const StepResult& /*step*/) {}
  /// `training.state.epoch` epochs are finished; their evaluation follows.
  virtual void after_epoch(const Training& /*training*/) {}
  /// Around each evaluation, of the test set too: the model may be another one in between.
  virtual void before_evaluation(const Training& /*training*/) {}
  virtual void after_evaluation(const Training& /*training*/) noexcept {}
  /// What the epoch's evaluation found; the same on all ranks. Not called without a set to judge
  /// by.
  virtual void evaluated(const Training& /*training*/, const Evaluation& /*found*/) {}
  /// Asked after each epoch, and before the first; the same on all ranks: the training is complete.
  [[nodiscard]] virtual bool is_over() const { return false; }

  /// False while each rank has a model of its own.
  [[nodiscard]] virtual bool ranks_are_equal() const { return true; }
  /// Makes the ranks' states one, of which each will write its share.
  virtual void before_save(const Training& /*training*/) {}
  virtual void save(PartState& /*state*/) const {}
  /// Goes on from what save() set. training.state is the checkpoint's; the model's and optimizer's
  /// tensors follow. Local.
  virtual void restore(const Training& /*training*/, PartState& /*state*/) {}

  /// The run has ended: as outcome.stopped says, to which the part may add.
  virtual void end_run(const Training& /*training*/, Outcome& /*outcome*/) {}
};

using TrainingParts = std::vector<std::shared_ptr<TrainingPart>>;

/// Makes a part of a program's own from its deck: reads the part's table, if it has one. Throws
/// InputError. Local.
using PartFactory = std::function<std::shared_ptr<TrainingPart>(Deck&)>;

/// Throws InputError unless each part is given, and has a name that no other has.
void expect_names(const TrainingParts& parts);

}  // namespace lockstep::train
