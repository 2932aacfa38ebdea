#include <lockstep/checkpoint/run_checkpoints.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

void remove_or_warn(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    log(LogLevel::warning,
        fmt::format("the old checkpoint {} cannot be removed: {}", path.string(), error.message()));
}

/// Moves `paths`, newest first, into a new folder beside them, the newest last.
void move_aside(const fs::path& folder, const std::vector<fs::path>& paths) {
  int number = 1;
  while (fs::exists(abandoned_folder(folder, number))) ++number;
  const fs::path aside = abandoned_folder(folder, number);
  make_folder(aside);
  for (auto path = paths.rbegin(); path != paths.rend(); ++path)
    fs::rename(*path, aside / path->filename());
  sync_folder(aside);
  sync_folder(folder);
  log(LogLevel::warning,
      fmt::format(
          "the branch of {} is abandoned: it was moved to {}. To go back to it, name a file "
          "there with --resume=FILE.",
          paths.size() == 1
              ? paths.front().filename().string()
              : fmt::format("{} to {} ({} checkpoints)", paths.back().filename().string(),
                            paths.front().filename().string(), paths.size()),
          aside.string()));
}

}  // namespace

RunCheckpoints::RunCheckpoints(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(static_cast<std::size_t>(keep)) {}

bool RunCheckpoints::begin(const std::optional<fs::path>& from) {
  const auto there = list_checkpoints(folder_);
  const auto past = std::ranges::find_if(
      there, [&](const fs::path& path) { return from && is_same_file(path, *from); });
  past_.assign(past, there.end());
  newest_ = from;
  if (from) good_ = {past_.empty() ? *from : past_.front()};
  const std::vector<fs::path> abandoned(there.begin(), past);
  if (abandoned.empty()) return !past_.empty();
  try {
    move_aside(folder_, abandoned);
  } catch (const fs::filesystem_error& error) {
    throw CheckpointError(
        fmt::format("another branch's checkpoints in {} cannot be moved aside: {}. Make the folder "
                    "writable, or choose another run.dir.",
                    folder_.string(), error.code().message()));
  }
  return !past_.empty();
}

void RunCheckpoints::saved(const fs::path& path, bool finite) {
  std::erase_if(own_, [&](const Own& own) { return own.path == path; });
  own_.insert(own_.begin(), {path, finite});
  std::erase(past_, path);
  newest_ = path;
  if (keep_ > 0) prune();
  remove_unfinished();
}

void RunCheckpoints::prune() {
  std::size_t good = 0, kept = 0;
  std::erase_if(own_, [&](const Own& own) {
    const bool counts = own.finite && fs::exists(own.path);
    const bool stays = kept < keep_ || (counts && good == 0);
    if (stays) {
      ++kept;
      good += counts ? 1 : 0;
    } else {
      remove_or_warn(own.path);
    }
    return !stays;
  });
  std::erase_if(past_, [&](const fs::path& path) {
    if (good < keep_) {
      good += is_good(path) ? 1 : 0;
      return false;
    }
    remove_or_warn(path);
    return true;
  });
}

bool RunCheckpoints::is_good(const fs::path& path) {
  if (std::ranges::find(good_, path) != good_.end()) return fs::exists(path);
  try {
    verify_checkpoint(path);
  } catch (const CheckpointError&) {
    return false;
  }
  good_.push_back(path);
  return true;
}

void RunCheckpoints::remove_unfinished() const {
  for (const auto& path : list_unfinished_checkpoints(folder_)) remove_or_warn(path);
}

}  // namespace lockstep
