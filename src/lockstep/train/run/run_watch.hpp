#pragma once
#include <atomic>
#include <filesystem>
#include <functional>
#include <thread>

#include <lockstep/io/folder_lock.hpp>
#include <lockstep/train/options.hpp>
#include <lockstep/train/run/stop_request.hpp>
#include <lockstep/train/run/time_limit.hpp>

namespace lockstep::train {

/// Rank 0's watch over a run, from the opening of its folder to its end: holds the folder's lock
/// and shows signs of life, looks for a file `stop`, and has the time limits. A
/// thread that sleeps does it, so that a step waits for no file system; it looks each quarter of a
/// second.
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

  FolderLock lock_;
  std::filesystem::path folder_, stop_file_;
  TimeLimit limit_;
  std::atomic<bool> stop_wanted_{false}, lost_{false};
  std::jthread thread_;
};

}  // namespace lockstep::train
