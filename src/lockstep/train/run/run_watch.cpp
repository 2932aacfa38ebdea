#include <lockstep/train/run/run_watch.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <condition_variable>
#include <mutex>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>

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
      limit_(options.max_minutes, options.stop_before_limit_s) {
  thread_ = std::jthread([this](const std::stop_token& over) { watch(over); });
}

RunWatch::~RunWatch() {
  thread_.request_stop();
  thread_.join();  // before the lock is released
}

StopReason RunWatch::reason(double step_s) const noexcept {
  if (lost_) return StopReason::folder_lost;
  if (stop_wanted_) return StopReason::stop_file;
  return limit_.reason(step_s);
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
