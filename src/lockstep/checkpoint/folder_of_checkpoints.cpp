#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/plan.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view name_prefix = "step-";
constexpr std::string_view name_suffix = ".h5";

/// The step in "step-00000938.h5"; empty for any other name.
std::optional<std::int64_t> step_in(const std::string& name) {
  if (!name.starts_with(name_prefix) || !name.ends_with(name_suffix)) return {};
  const char* begin = name.data() + name_prefix.size();
  const char* end = name.data() + name.size() - name_suffix.size();
  std::int64_t step = 0;
  if (begin >= end) return {};
  const auto [last, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || last != end || step < 0) return {};
  return step;
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, std::int64_t step) {
  return folder / fmt::format("{}{:08}{}", name_prefix, step, name_suffix);
}

std::optional<std::int64_t> step_of(const fs::path& path) {
  return step_in(path.filename().string());
}

void expect_step_of_name(const fs::path& path) {
  const auto named = step_of(path);
  if (!named) return;
  const std::int64_t step = CheckpointFile(path).integer("/train/step");
  if (step == *named) return;
  throw CheckpointError(fmt::format(
      "checkpoint {} is of step {}, not of the step in its name. Rename it to {}, or move it away.",
      path.string(), step, checkpoint_path({}, step).string()));
}

fs::path best_checkpoint(const fs::path& folder) { return folder / "best.h5"; }

std::vector<fs::path> list_checkpoints(const fs::path& folder) {
  std::vector<std::pair<std::int64_t, fs::path>> found;
  const auto take = [&](const fs::directory_entry& entry) {
    if (const auto step = step_in(entry.path().filename().string()))
      found.emplace_back(*step, entry.path());
  };
  std::error_code ignored;
  for_each_entry(folder, take, ignored);
  std::ranges::sort(found, std::greater<>());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

std::optional<fs::path> newest_good_checkpoint(const fs::path& folder) {
  constexpr int most_looks = 10;  // another run may remove files while they are read
  std::set<fs::path> skipped;
  for (int looks = 0; looks < most_looks; ++looks) {
    bool removed = false;
    for (const auto& path : list_checkpoints(folder)) {
      if (skipped.contains(path)) continue;
      try {
        verify_checkpoint(path);
        expect_step_of_name(path);
        return path;
      } catch (const CheckpointError& e) {
        std::error_code unknown;
        removed = fs::symlink_status(path, unknown).type() == fs::file_type::not_found;
        if (removed) break;
        skipped.insert(path);
        log(LogLevel::warning, fmt::format("skipped: {}", e.what()));
      }
    }
    if (!removed) break;
  }
  return {};
}

std::optional<fs::path> newest_good_checkpoint(ProcessGroup& group, const fs::path& folder) {
  return agree(
      group, 0, [&] { return newest_good_checkpoint(folder); },
      refuse_with("the search for a checkpoint failed"));
}

std::vector<fs::path> list_unfinished_checkpoints(const fs::path& folder) {
  std::vector<fs::path> unfinished;
  const auto take = [&](const fs::directory_entry& entry) {
    if (step_in(AtomicFile::published_name_of(entry.path().filename().string())))
      unfinished.push_back(entry.path());
  };
  std::error_code ignored;
  for_each_entry(folder, take, ignored);
  return unfinished;
}

fs::path abandoned_folder(const fs::path& folder, int number) {
  return folder / fmt::format("abandoned.{}", number);
}

fs::path next_abandoned_folder(const fs::path& folder) {
  for (int number = 1;; ++number) {
    fs::path next = abandoned_folder(folder, number);
    if (list_checkpoints(next).empty() && !fs::exists(best_checkpoint(next))) return next;
  }
}

}  // namespace lockstep
