#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/writer.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/data/batch_plan.hpp>
#include <lockstep/data/loader.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/plateau.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/parallel/replica_check.hpp>
#include <lockstep/train/early_stopping.hpp>
#include <lockstep/train/evaluation.hpp>
#include <lockstep/train/outcome.hpp>
#include <lockstep/train/run_plan.hpp>
#include <lockstep/train/step_clock.hpp>
#include <lockstep/train/stop_agreement.hpp>
#include <lockstep/train/task.hpp>
#include <lockstep/train/weight_averaging.hpp>

namespace lockstep {
class CheckpointFile;
struct Manifest;
}  // namespace lockstep

namespace lockstep::train {

class Console;
class MetricsFile;
class RunFolder;
class RunLocalCopies;
class RunSaves;
class RunTrace;
struct MetricsRow;

/// The distributed SGD loop: plan, loader, model, optimizer, evaluation, checkpoints, metrics.
/// Everything public is collective over the group.
class Trainer {
 public:
  /// Builds the model (after nn::manual_seed), broadcasts it, and makes loaders and optimizer.
  /// Throws what check() throws.
  Trainer(std::shared_ptr<ProcessGroup> group, const Task& task, const RunPlan& plan,
          std::vector<std::pair<std::string, std::string>> library_versions = {});

  /// Throws InputError where options, data, model and the number of ranks do not fit each other.
  /// Local: what all ranks should agree on before they construct a Trainer.
  static void check(const Task& task, const RunPlan& plan, int ranks = 1);

  /// Goes on from a checkpoint instead of from the beginning. Throws CheckpointError for another
  /// model's, InputError where the deck contradicts it.
  void restore(const CheckpointContents& checkpoint);
  /// Throws what restore() does for a file of another model or seed, or from the middle of an epoch
  /// of other samples; looks at no tensor's bytes. Local.
  void expect_continues(const CheckpointFile& file) const;
  /// What load_checkpoint_in_place() should fill for restore(), of a file with that manifest: slots
  /// of the optimizer, and what this rank takes over of the communication hook's state.
  [[nodiscard]] StateDict slots_to_load(const Manifest& manifest) const;

  /// Trains to the last epoch, or until it is not getting better (train.early_stop_patience), or
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
  double step();
  /// The model trains, but for parts of it that the task or who holds model() has put into
  /// evaluation mode.
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  /// Mean loss and the task's metrics on the set that epochs are judged by (judged_by), the same
  /// bits for any number of ranks; of averaged weights where [averaging] keeps some. Throws
  /// InputError if there is none.
  [[nodiscard]] Evaluation evaluate();

  [[nodiscard]] nn::Module& model() const noexcept { return ddp_->module(); }
  [[nodiscard]] const optim::Optimizer& optimizer() const noexcept { return *optimizer_; }
  [[nodiscard]] std::int64_t steps_an_epoch() const noexcept { return batches_.steps(); }
  [[nodiscard]] const TrainState& state() const noexcept { return state_; }

 private:
  struct Reporting;  // what run() carries through an epoch
  struct Losses {
    double sum = 0;                    ///< over samples
    std::optional<double> not_finite;  ///< a mean loss that is not
  };

  /// Seconds of communication that computation did not hide, since construction.
  [[nodiscard]] double communication_seconds() const noexcept;

  /// What saves do about elements that are not finite.
  [[nodiscard]] NotFinite not_finite() const;
  void expect_continues(const TrainState& saved) const;
  /// Without a communication hook's state where not all ranks take part in a save.
  [[nodiscard]] CheckpointContents contents(const std::string& deck, bool of_all_ranks = true);
  /// What checkpoints hold under /optimizer.
  [[nodiscard]] StateDict optimizer_state(bool of_all_ranks = true) const;
  /// What the communication hook goes on from.
  [[nodiscard]] StateDict hook_state() const;
  /// After an epoch: the averages' update, and BatchNorm's statistics for them. Collective.
  void average_after_epoch();
  /// One state on all ranks, of which each will write its part. Collective.
  void make_replicas_equal();
  /// A save that is due now may be left out, the last one of a run may not.
  enum class Due : std::uint8_t { now, last };
  void save(RunSaves& saves, const std::string& deck, Due due = Due::now);
  /// Into the nodes' memory; not while the ranks' models differ (ddp.comm_hook "post_local_sgd").
  void copy(RunLocalCopies& copies, const std::string& deck);
  /// Before the run ends: what is under way, and where it was stopped, one of this step.
  void save_last(RunSaves& saves, const std::string& deck, bool stopped);
  /// Gradients of a shard of this rank, in train.accumulate parts; forward and backward are added
  /// to `times`.
  Losses backward(const Share& part, const Batch& samples, StepTimes& times);
  /// Of the parameters, by the gradients.
  void update();
  /// With train.check_replicas_every: throws AgreedError if the ranks' states differ.
  void compare_replicas();
  /// Why it ended before its last step; none if it did not.
  StopReason train_epoch(Reporting& reporting);
  /// Where to; nothing where a run that stops cannot write it. Collective; throws AgreedError where
  /// one that ends cannot.
  [[nodiscard]] std::optional<std::filesystem::path> write_trace(RunTrace& trace,
                                                                 const RunFolder& folder,
                                                                 StopReason stopped) const;
  /// In run(): of this rank, at this moment of a step. Local.
  [[nodiscard]] StopReason own_reason_to_stop() const;
  /// In run(): all ranks are at the same place; the answer is stop_.answer(). Collective.
  void ask_whether_to_stop();
  /// Where the time went, on all ranks; the longest wall time of any. Collective.
  double add_times(MetricsRow& row, const StepTimes& mine);
  void report_steps(Reporting& reporting, double step_loss, const Share& share);
  void finish_epoch(Reporting& reporting);
  /// The model on a set; averages what ranks hold of it first.
  [[nodiscard]] Evaluation evaluate(Evaluator& evaluator);
  /// The test set, once, after the last epoch of a run that is judged by another.
  void test(Reporting& reporting);
  /// Throws AgreedError if the loss of a set is not, unless train.on_nan is "ignore".
  void expect_finite(const char* set, double loss, const char* what_of_saves) const;
  void report_epoch(Reporting& reporting, const MetricsRow& row,
                    const std::optional<Evaluation>& evaluation, double seconds) const;
  [[nodiscard]] const char* judging_set() const noexcept {
    return task_.data().validation ? "validation" : "test";
  }
  [[nodiscard]] bool saves_checkpoints() const noexcept {
    const CheckpointOptions& wanted = plan_.checkpoint;
    return wanted.every_epochs > 0 || wanted.every_steps > 0 || wanted.every_minutes > 0;
  }
  [[nodiscard]] bool is_over() const noexcept {
    return state_.epoch >= plan_.train.epochs || early_stopping_.is_over();
  }

  std::shared_ptr<ProcessGroup> group_;
  const Task& task_;
  RunPlan plan_;
  std::vector<std::pair<std::string, std::string>> library_versions_;
  BatchPlan batches_;
  std::unique_ptr<DistributedDataParallel> ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<PeriodicModelAverager> averager_;  ///< with ddp.comm_hook = "post_local_sgd"
  std::unique_ptr<ReplicaCheck> replicas_;         ///< null: not asked for
  double peak_flops_ = 0;  ///< a rank's cores in products (product_speed); told on rank 0 alone
  double grad_norm_ = -1;  ///< of the last step, before clipping; negative: not measured
  Loader loader_;
  std::optional<Evaluator> judge_;            ///< on judged_by(data)
  std::optional<Evaluator> test_;             ///< where that is not the test set
  std::optional<WeightAveraging> averaging_;  ///< with averaging.kind
  EarlyStopping early_stopping_;
  std::optional<optim::GradScaler> scaler_;          ///< with train.precision = "fp16"
  std::optional<optim::ReduceLROnPlateau> plateau_;  ///< with schedule.kind = "plateau"
  StepClock clock_;
  StopAgreement stop_;
  Clock::time_point step_start_;
  const RunFolder* folder_ = nullptr;  ///< of run()
  TrainState state_;
  double epoch_loss_ = 0;            ///< this rank's summed loss of the unfinished epoch
  std::int64_t compared_step_ = -1;  ///< the last at which replicas were found equal
};

}  // namespace lockstep::train
