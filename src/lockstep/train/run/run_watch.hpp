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

/// Rank 0's watch over a run, from the opening of its folder to its end: holds the folder's lock
/// and shows signs of life, looks for a file `stop`, asks Slurm once how long the job may take. A
/// thread that sleeps does it, so that a step waits for no file system; it looks each quarter of a
/// second.
class RunWatch {
 public:
  static constexpr const char* stop_file = "stop";

  RunWatch(FolderLock lock, const std::filesystem::path& folder, const RunOptions& options);
  ~RunWatch();
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  /// Why the run should stop now, if another step takes `step_s`.
  [[nodiscard]] StopReason reason(double step_s) const noexcept;
  /// Throws CheckpointError once the folder was removed, moved or given to another run. Looks when
  /// it is called; may outlive this.
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
  std::jthread asking_;  ///< Slurm, which may take its time: the folder is watched meanwhile
  std::jthread thread_;
};

}  // namespace lockstep::train
