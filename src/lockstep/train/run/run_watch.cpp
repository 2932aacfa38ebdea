#include <lockstep/train/run/run_watch.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <condition_variable>
#include <mutex>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/train/run/slurm_time.hpp>

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

constexpr auto between_looks = std::chrono::milliseconds(250);

/// Not a link, which may depend on files of others.
bool is_there(const fs::path& stop_file) {
  struct stat status {};
  return ::lstat(stop_file.c_str(), &status) == 0 && !S_ISLNK(status.st_mode);
}

}  // namespace

RunWatch::RunWatch(FolderLock lock, const fs::path& folder, const RunOptions& options)
    : lock_(std::move(lock)),
      folder_(folder),
      stop_file_(folder / stop_file),
      stop_before_limit_s_(options.stop_before_limit_s),
      latest_end_((Clock::time_point::max)()) {
  if (options.max_minutes > 0)
    latest_end_ = deadline_in(Seconds(options.max_minutes * 60 - seconds_since_process_start()));
  if (stop_before_limit_s_ > 0)
    asking_ = std::jthread([this](const std::stop_token& over) { ask_slurm(over); });
  thread_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

RunWatch::~RunWatch() {
  asking_.request_stop();
  thread_.request_stop();
  thread_.join();  // before the lock is released
}

StopReason RunWatch::reason(double step_s) const noexcept {
  if (lost_) return StopReason::folder_lost;
  if (stop_wanted_) return StopReason::stop_file;
  const auto next_end = deadline_in(Seconds(step_s));
  if (next_end > job_end_.load()) return StopReason::time_limit;
  return next_end > latest_end_ ? StopReason::max_minutes : StopReason::none;
}

std::function<void()> RunWatch::expectation() const {
  return [is_held = lock_.question(), folder = folder_] {
    if (is_held()) return;
    throw CheckpointError(fmt::format(
        "the run folder {} was removed, moved or given to another run while this one wrote into it "
        "({} no longer exists). Earlier checkpoints are where the folder is now; --resume "
        "continues from there",
        folder.string(), FolderLock::file_name));
  };
}

void RunWatch::ask_slurm(const std::stop_token& over) {
  const auto left = seconds_left_in_slurm_job(over);
  if (!left) return;
  job_end_ = deadline_in(Seconds(*left - stop_before_limit_s_));
  log(LogLevel::debug, fmt::format("Slurm leaves this job {:.0f} s", *left));
}

void RunWatch::watch(const std::stop_token& over) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any changed;
  auto sign_of_life = Clock::now();
  while (!over.stop_requested()) {
    lost_ = !lock_.is_held();
    stop_wanted_ = is_there(stop_file_);
    if (Clock::now() - sign_of_life > FolderLock::heartbeat) {
      lock_.refresh();
      sign_of_life = Clock::now();
    }
    changed.wait_for(lock, over, between_looks, [] { return false; });
  }
}

}  // namespace lockstep::train
