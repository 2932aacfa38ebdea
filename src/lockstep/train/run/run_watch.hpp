#pragma once
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <thread>

#include <lockstep/base/clock.hpp>
#include <lockstep/io/folder_lock.hpp>
#include <lockstep/train/options.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

/// Rank 0's watch over a run from opening its folder to its end: holds the folder's lock and
/// refreshes its heartbeat, looks for a file `stop`, asks Slurm once for the job's time limit. A
/// sleeping thread does this every quarter of a second, so that no step waits for a file system.
class RunWatch {
 public:
  static constexpr const char* stop_file = "stop";

  RunWatch(FolderLock lock, const std::filesystem::path& folder, const RunOptions& options);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  /// Reason to stop now, if another step takes `step_s`.
  [[nodiscard]] StopReason reason(double step_s) const noexcept;
  /// Throws CheckpointError once the folder was removed, moved or given to another run. Checks at
  /// the call; may outlive this.
  [[nodiscard]] std::function<void()> expectation() const;

 private:
  void watch(const std::stop_token& over);
  void ask_slurm(const std::stop_token& over);

  FolderLock lock_;
  std::filesystem::path folder_, stop_file_;
  double stop_before_limit_s_;
  Clock::time_point latest_end_;  ///< run.max_minutes
  std::atomic<Clock::time_point> job_end_{
      (Clock::time_point::max)()};  ///< Slurm's, with the margin
  std::atomic<bool> stop_wanted_{false}, lost_{false};
  std::jthread asking_;  ///< asks Slurm, which may take its time, while the folder is watched
  std::jthread thread_;
};

}  // namespace lockstep::train
