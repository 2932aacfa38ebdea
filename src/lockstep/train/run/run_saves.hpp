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

/// Whether a run saves at all, but for where it was stopped.
[[nodiscard]] inline bool saves_checkpoints(const CheckpointOptions& options) noexcept {
  return options.every_epochs > 0 || options.every_steps > 0 || options.every_minutes > 0;
}

/// The saves of one run: each is started, goes on while the run does (checkpoint.async), and is
/// accounted for at the next look. A save that failed is said in the log, and the run goes on.
class RunSaves {
 public:
  /// Nothing waits for longer than `deadline`. `may_write` outlives this. Collective.
  RunSaves(ProcessGroup& group, const CheckpointOptions& options, std::filesystem::path folder,
           std::chrono::milliseconds deadline, MayWrite may_write = {});
  /// Waits for what is under way, as ~AsyncCheckpointWriter does, unless other ranks do not answer.
  /// Local.
  ~RunSaves();
  RunSaves(const RunSaves&) = delete;
  RunSaves& operator=(const RunSaves&) = delete;

  /// The run begins at `step`, or goes on there from a file: see RunCheckpoints::begin. Makes room
  /// for a copy of such a state. Collective; throws AgreedError.
  void begin(std::int64_t step, const std::optional<std::filesystem::path>& resumed_from,
             const StateDict& model, const StateDict& optimizer);

  /// Whether a save is due now that this step is done: by steps, epochs or time. The same on all
  /// ranks, as of look().
  [[nodiscard]] bool is_due(const TrainState& train) const {
    return due_by_time_ || checkpoint_is_due(options_, train);
  }
  /// Whether the save of `train` that is due is to be left out, because the one before is still
  /// under way. That one is waited for with busy = "wait", and if `train` is the best so far: which
  /// file is the best does not depend on how long saves take. Collective.
  [[nodiscard]] bool skips(const TrainState& train);
  /// Saves. With checkpoint.async the state may change when it returns. Throws NotFiniteError on
  /// all ranks. Collective.
  void start(const CheckpointContents& contents, NotFinite not_finite);
  /// After each step: says what has become of the save that was under way, once it is over. Throws
  /// CommError where a peer was lost meanwhile. With every_minutes, all ranks hear what rank 0's
  /// clock said a step earlier, so that nobody waits for it: then collective, else local. Allocates
  /// nothing.
  void look();
  /// Waits for the save that is under way. If the deadline passes before, throws, on this rank
  /// alone, TimeoutError where its thread waits for another rank, else CheckpointError. Afterwards
  /// all ranks know the same of it.
  void finish();
  /// Releases what the saves needed; none is under way. Collective.
  void close();

  /// Of the newest checkpoint in the run folder; -1: none.
  [[nodiscard]] std::int64_t saved_step() const noexcept { return saved_step_; }
  /// Why the last save failed; empty if it did not.
  [[nodiscard]] const std::string& last_failure() const noexcept { return last_failure_; }
  /// On rank 0, what the run saved last, else what it goes on from.
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
  /// The writer's thread uses it too, between a save's start and its end.
  std::shared_ptr<RunCheckpoints> checkpoints_;
  std::unique_ptr<AsyncCheckpointWriter> async_;  // null: saves are over when they return
  std::future<SaveReport> under_way_;             // not valid: none
  std::int64_t step_under_way_ = 0;
  std::int64_t saved_step_ = -1;
  /// Values of options_.best: of the best state saved, or being saved, and before that one.
  std::optional<double> best_, best_before_;
  std::string last_failure_;
  Clock::time_point last_start_ = Clock::now();
  Tensor time_is_up_;  // one f64, rank 0's
  Work question_;
  bool asked_ = false, due_by_time_ = false;
};

}  // namespace lockstep::train
