#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/base/clock.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/run_checkpoints.hpp>
#include <lockstep/checkpoint/save/async_writer.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// Whether a run saves at all, apart from a stop on request.
[[nodiscard]] inline bool saves_checkpoints(const CheckpointOptions& options) noexcept {
  return options.every_epochs > 0 || options.every_steps > 0 || options.every_minutes > 0;
}

/// The saves of one run. Each is started, runs in the background (checkpoint.async), and is
/// accounted for at the next check. A failed save is logged, and the run goes on.
class RunSaves {
 public:
  /// No wait is longer than `deadline`. `may_write` outlives this. Collective.
  RunSaves(ProcessGroup& group, const CheckpointOptions& options, std::filesystem::path folder,
           std::chrono::milliseconds deadline, MayWrite may_write = {});
  /// Waits for the save in progress, as ~AsyncCheckpointWriter does, unless other ranks do not
  /// answer. Local.
  ~RunSaves();
  RunSaves(const RunSaves&) = delete;
  RunSaves& operator=(const RunSaves&) = delete;

  /// To be called when the run begins at `step`, or resumes there from a file: see
  /// RunCheckpoints::begin. Allocates the copy of such a state. Collective; throws AgreedError.
  void begin(std::int64_t step, const std::optional<std::filesystem::path>& resumed_from,
             const StateDict& model, const StateDict& optimizer);

  /// Whether a save is due after this step: by steps, epochs or time. The same on all ranks, as of
  /// look().
  [[nodiscard]] bool is_due(const TrainState& train) const {
    return due_by_time_ || checkpoint_is_due(options_, train);
  }
  /// Whether `train` is the best so far, by options.best. The same on all ranks.
  [[nodiscard]] bool is_best(const TrainState& train) const {
    return is_better(options_, figure_of(options_, train), best_);
  }
  /// Whether to skip the due save of `train` because the previous one is still in progress. With
  /// busy = "wait", and if `train` is the best so far, waits for that one instead: the choice of
  /// the best file does not depend on the duration of saves. Collective.
  [[nodiscard]] bool skips(const TrainState& train);
  /// Saves. With checkpoint.async the state may change after the return. Throws NotFiniteError on
  /// all ranks. Collective.
  void start(const CheckpointContents& contents, NotFinite not_finite);
  /// To be called after each step: reports the result of the save in progress once it has ended.
  /// Throws CommError if a peer was lost meanwhile. With every_minutes, distributes rank 0's clock
  /// of one step earlier, so that no rank waits for it: then collective, else local. Allocates
  /// nothing.
  void look();
  /// Waits for the save in progress. If the deadline passes first, throws on this rank alone:
  /// TimeoutError if its thread waits for another rank, else CheckpointError. Afterwards all ranks
  /// know the same result.
  void finish();
  /// Releases the resources of saves; none may be in progress. Collective.
  void close();

  /// Step of the newest checkpoint in the run folder; -1: none.
  [[nodiscard]] std::int64_t saved_step() const noexcept { return saved_step_; }
  /// Failure of the last save; empty if it succeeded.
  [[nodiscard]] const std::string& last_failure() const noexcept { return last_failure_; }
  /// On rank 0, the run's last checkpoint, or the one it resumed from.
  [[nodiscard]] const std::optional<std::filesystem::path>& newest() const noexcept {
    return checkpoints_->newest();
  }

 private:
  [[nodiscard]] std::filesystem::path path_of(std::int64_t step) const;
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool others_do_not_answer() const;
  void account();
  void ask_the_time();
  void settle();
  void failed(const std::string& error);

  ProcessGroup& group_;
  const CheckpointOptions options_;
  const std::chrono::milliseconds deadline_;
  const MayWrite may_write_;
  /// Also used by the writer's thread, between a save's start and its end.
  std::shared_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<AsyncCheckpointWriter> async_;  // null: saves are synchronous
  std::future<SaveReport> under_way_;             // not valid: none
  std::int64_t step_under_way_ = 0;
  std::int64_t saved_step_ = -1;
  /// Values of options_.best: for the best state saved or being saved, and for the one before.
  std::optional<double> best_, best_before_;
  std::string last_failure_;
  Clock::time_point last_start_ = Clock::now();
  Tensor time_is_up_;  // one f64, rank 0's clock
  Work question_;
  bool asked_ = false, due_by_time_ = false;
};

}  // namespace lockstep::train
