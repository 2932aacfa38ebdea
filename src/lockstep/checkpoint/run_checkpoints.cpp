#include <lockstep/checkpoint/run_checkpoints.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <system_error>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

/// False if the system cannot tell, for example when a file server does not answer.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

void remove_or_warn(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error)
    log(LogLevel::warning,
        fmt::format("the old checkpoint {} cannot be removed: {}", path.string(), error.message()));
}

/// The first of `paths` that is the file `from`, under that name if it is there: a misnamed link of
/// the same file is another checkpoint.
std::vector<fs::path>::const_iterator find_file(const std::vector<fs::path>& paths,
                                                const fs::path& from) {
  const auto is_it = [&](const fs::path& path) { return is_same_file(path, from); };
  const auto named = std::ranges::find(paths, from.filename(), &fs::path::filename);
  if (named != paths.end() && is_it(*named)) return named;
  return std::ranges::find_if(paths, is_it);
}

bool has_hash(const fs::path& path, std::uint64_t hash) {
  try {
    return CheckpointFile(path).hash() == hash;
  } catch (const CheckpointError&) {  // damaged
    return false;
  }
}

/// Moves `paths`, newest first, into a folder beside them that holds no checkpoint yet; the newest
/// moves last.
void move_aside(const fs::path& folder, const std::vector<fs::path>& paths) {
  const fs::path aside = next_abandoned_folder(folder);
  make_folder(aside);
  for (auto path = paths.rbegin(); path != paths.rend(); ++path)
    fs::rename(*path, aside / path->filename());
  sync_folder(aside);
  sync_folder(folder);
  const auto steps =
      std::ranges::count_if(paths, [](const auto& path) { return step_of(path).has_value(); });
  const auto last = steps == 0 ? paths.begin() : paths.begin() + steps - 1;
  log(LogLevel::warning,
      fmt::format(
          "the branch of {} is abandoned: it was moved to {}. To go back to it, name a file "
          "there with --resume=FILE.",
          steps < 2 ? paths.front().filename().string()
                    : fmt::format("{} to {} ({} checkpoints)", last->filename().string(),
                                  paths.front().filename().string(), steps),
          aside.string()));
}

/// Makes `name`, which may exist, another name of the file, or of a copy if the file system has no
/// hard links. Throws Error.
void become_another_name_of(const fs::path& file, const fs::path& name) {
  const fs::path temporary = name.string() + AtomicFile::temporary_suffix;
  std::error_code error;
  remove_unfinished_files_of(name);
  fs::create_hard_link(file, temporary, error);
  if (error) return copy_atomically(file, name);
  fs::rename(temporary, name, error);
  if (!error) return sync_folder(name.parent_path());
  std::error_code ignored;
  fs::remove(temporary, ignored);
  throw Error(error.message());
}

}  // namespace

bool is_better(const CheckpointOptions& options, std::optional<double> figure,
               std::optional<double> best) {
  if (!figure || std::isnan(*figure)) return false;
  const bool greater = options.best_direction != CheckpointOptions::Direction::min;
  return !best || std::isnan(*best) || (greater ? *figure > *best : *figure < *best);
}

std::optional<double> figure_of(const CheckpointOptions& options, const TrainState& train) {
  const auto at =
      std::ranges::find(train.metrics, options.best, &std::pair<std::string, double>::first);
  return at == train.metrics.end() ? std::nullopt : std::optional(at->second);
}

RunCheckpoints::RunCheckpoints(fs::path folder, const CheckpointOptions& options)
    : folder_(std::move(folder)),
      options_(options),
      keep_(static_cast<std::size_t>(options.keep)) {}

bool RunCheckpoints::begin(std::optional<fs::path> from) {
  const fs::path best_path = best_checkpoint(folder_);
  const bool is_from_best = from && is_same_file(*from, best_path);
  std::optional<Best> best;
  bool is_bad = false;
  try {
    best = read_best();
  } catch (const CheckpointError&) {
    if (is_from_best) throw;
    is_bad = true;
  }
  if (is_from_best) from = name_by_its_step(*best);
  const auto there = list_checkpoints(folder_);
  const auto past = from ? find_file(there, *from) : there.end();
  if (past != there.end()) expect_step_of_name(*past);
  past_.assign(past, there.end());
  newest_ = from;
  std::vector<fs::path> abandoned(there.begin(), past);
  const bool is_of_past =
      best && !past_.empty() && best->step <= step_of(past_.front()).value_or(0);
  if (is_of_past) best_ = best->figure;
  if (is_bad || (best && !is_of_past)) abandoned.push_back(best_path);
  try {
    if (!abandoned.empty()) move_aside(folder_, abandoned);
  } catch (const fs::filesystem_error& error) {
    throw CheckpointError(
        fmt::format("another branch's checkpoints in {} cannot be moved aside: {}. Make the folder "
                    "writable, or choose another run.dir.",
                    folder_.string(), error.code().message()));
  }
  if (!options_.best.empty()) find_best();
  return !past_.empty();
}

// A run killed while it saved its newest checkpoint has not compared it, nor has a run that kept no
// best or judged by another figure or direction; and the best so far may belong to another branch.
// So all are compared. Only those that are better are read whole, the best first, until one is
// good.
void RunCheckpoints::find_best() {
  std::vector<std::pair<double, fs::path>> better;
  for (const fs::path& path : past_) {
    try {
      const auto figure = figure_of(CheckpointFile(path));
      if (is_better(options_, figure, best_)) better.emplace_back(*figure, path);
    } catch (const CheckpointError&) {  // a damaged checkpoint is not the best
      continue;
    }
  }
  std::ranges::stable_sort(
      better, [&](const auto& a, const auto& b) { return is_better(options_, a.first, b.first); });
  const auto best =
      std::ranges::find_if(better, [&](const auto& found) { return is_good(found.second); });
  if (best != better.end()) keep_best(best->second, best->first);
}

std::optional<double> RunCheckpoints::figure_of(const CheckpointFile& file) const {
  const std::string name = "/train/metrics/" + options_.best;
  return file.manifest().find(name) ? std::optional(file.real(name)) : std::nullopt;
}

std::optional<RunCheckpoints::Best> RunCheckpoints::read_best() const {
  const fs::path path = best_checkpoint(folder_);
  if (!fs::exists(path)) return std::nullopt;
  const CheckpointFile file(path);
  return Best{.step = file.integer("/train/step"), .hash = file.hash(), .figure = figure_of(file)};
}

fs::path RunCheckpoints::name_by_its_step(const Best& facts) const {
  const fs::path best = best_checkpoint(folder_);
  fs::path path = checkpoint_path(folder_, facts.step);
  // A copy is another file with the same contents.
  if (fs::exists(path)) return has_hash(path, facts.hash) ? path : best;
  try {
    become_another_name_of(best, path);
    return path;
  } catch (const Error& error) {
    throw CheckpointError(
        fmt::format("cannot resume from {}: restoring its name {} failed: {}. Make the folder "
                    "writable, or choose another run.dir.",
                    best.string(), path.filename().string(), error.what()));
  }
}

void RunCheckpoints::saved(const fs::path& path, bool finite, const TrainState& train) {
  std::erase_if(own_, [&](const Own& own) { return own.path == path; });
  own_.insert(own_.begin(), {path, finite});
  std::erase(past_, path);
  newest_ = path;
  const auto figure = lockstep::figure_of(options_, train);
  if (finite && is_better(options_, figure, best_)) keep_best(path, *figure);
  if (keep_ > 0) prune();
  remove_unfinished();
}

void RunCheckpoints::keep_best(const fs::path& path, double figure) {
  const fs::path best = best_checkpoint(folder_);
  try {
    become_another_name_of(path, best);
    best_ = figure;
  } catch (const Error& error) {
    log(LogLevel::warning, fmt::format("the best checkpoint so far, {}, cannot be kept as {}: {}",
                                       path.string(), best.string(), error.what()));
  }
}

void RunCheckpoints::prune() {
  const auto is_milestone = [&](const fs::path& path) {
    const auto step = step_of(path);
    return options_.keep_every > 0 && step && *step % options_.keep_every == 0;
  };
  std::size_t good = 0, kept = 0;
  std::erase_if(own_, [&](const Own& own) {
    const bool counts = own.finite && is_there(own.path);
    if (kept < keep_ || (counts && good == 0)) {
      ++kept;
      good += counts ? 1 : 0;
      return false;
    }
    if (is_milestone(own.path)) return false;
    remove_or_warn(own.path);
    return true;
  });
  std::erase_if(past_, [&](const fs::path& path) {
    if (good < keep_) {
      good += is_good(path) ? 1 : 0;
      return false;
    }
    if (is_milestone(path)) return false;
    remove_or_warn(path);
    return true;
  });
}

std::optional<fs::path> RunCheckpoints::newest_finite() {
  for (const Own& own : own_) {
    if (own.finite && is_there(own.path)) return own.path;
  }
  for (const fs::path& path : past_) {
    if (is_good(path)) return path;
  }
  return {};
}

bool RunCheckpoints::is_good(const fs::path& path) {
  const auto [at, is_new] = is_good_.try_emplace(path, false);
  try {
    if (is_new) {
      at->second = verify_checkpoint(path).empty();
      expect_step_of_name(path);
    }
  } catch (const CheckpointError&) {
    at->second = false;
  }
  return at->second && is_there(path);
}

void RunCheckpoints::remove_unfinished() const {
  for (const auto& path : list_unfinished_checkpoints(folder_)) remove_or_warn(path);
}

}  // namespace lockstep
