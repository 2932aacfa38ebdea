#include <lockstep/train/run/resume.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>
#include <string_view>
#include <vector>

#include <lockstep/base/log.hpp>
#include <lockstep/base/printable.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_local_copies.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// Keys of [data] that determine the samples of an epoch and their order. The path does not: data
/// may move. Nor do transforms of a sample, or the test set.
constexpr std::array<std::string_view, 19> deciding{"kind",
                                                    "context",
                                                    "train_limit",
                                                    "validation_fraction",
                                                    "image_listing",
                                                    "shuffle",
                                                    "shuffle_window",
                                                    "train_features",
                                                    "train_targets",
                                                    "feature_columns",
                                                    "target_columns",
                                                    "sample_weights",
                                                    "balance_classes",
                                                    "synthetic_seed",
                                                    "synthetic_samples",
                                                    "synthetic_noise",
                                                    "synthetic_classes",
                                                    "synthetic_channels",
                                                    "synthetic_image_size"};

/// Keys of [data] that give the model's inputs and outputs their meaning. A deck that leaves them
/// out has those of the data, which may have changed.
constexpr std::array<std::string_view, 5> meaning{"class_names", "mean", "std", "target_mean",
                                                  "target_std"};

/// The values of [data] in a resolved deck, in TOML: one per line.
std::map<std::string, std::string> data_values(const std::string& deck) {
  std::map<std::string, std::string> values;
  std::istringstream lines(deck);
  bool in_data = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) in_data = line == "[data]";
    const auto equals = line.find(" = ");
    if (!in_data || equals == std::string::npos) continue;
    values[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
}

/// By name only. Collective.
std::optional<fs::path> newest_by_name(ProcessGroup& group, const fs::path& folder) {
  return agree(group, 0, [&] {
    const auto there = list_checkpoints(folder);
    return there.empty() ? std::nullopt : std::optional(there.front());
  });
}

/// The numbers of a list in TOML; empty if it holds anything else.
std::vector<double> numbers_in(const std::string& list) {
  std::vector<double> numbers;
  std::istringstream text(list);
  char mark = 0;
  text >> mark;  // the bracket
  for (double number = 0; text >> number >> mark;) numbers.push_back(number);
  return mark == ']' ? numbers : std::vector<double>();
}

/// Measured numbers may differ in their last digits between processors.
bool mean_the_same(const std::string& now, const std::string& then) {
  if (now == then) return true;
  const auto a = numbers_in(now), b = numbers_in(then);
  return !a.empty() && std::ranges::equal(a, b, [](double x, double y) {
    constexpr double tolerance = 1e-6;
    return std::abs(x - y) <= tolerance * std::max(std::abs(x), std::abs(y));
  });
}

bool has_abandoned_branch(const fs::path& folder) {
  return fs::exists(abandoned_folder(folder, 1));
}

}  // namespace

std::optional<fs::path> checkpoint_to_resume(ProcessGroup& group, const CommandLine& line,
                                             const fs::path& folder,
                                             const ExpectFits& expect_fits) {
  if (!line.resume) return std::nullopt;
  if (!line.resume_from.empty()) {
    // A copy in memory that is newer than all checkpoints in the folder is the newest of its
    // branch, whether that branch is resumed or moved aside.
    static_cast<void>(newest_of_both_levels(group, folder, newest_by_name(group, folder)));
    return line.resume_from;
  }
  auto newest =
      newest_of_both_levels(group, folder, newest_good_checkpoint(group, folder), expect_fits);
  if (newest) return newest;
  agree(group, 0, [&] {
    if (!list_checkpoints(folder).empty()) {
      throw CheckpointError(
          fmt::format("no checkpoint in {} is usable (each is named above). Start anew without "
                      "--resume, or name another with --resume=FILE.",
                      folder.string()));
    }
    if (has_abandoned_branch(folder)) {
      throw CheckpointError(fmt::format(
          "there is no checkpoint in {}, only those of an abandoned branch in {}. Name one "
          "with --resume=FILE, or start anew without --resume.",
          folder.string(), abandoned_folder(folder, 1).string()));
    }
    log(LogLevel::warning,
        fmt::format("nothing to resume in {}: starting from the beginning", folder.string()));
  });
  return std::nullopt;
}

fs::path metrics_of(const fs::path& checkpoint) {
  const auto beside = [](const fs::path& file) {
    const fs::path folder = file.parent_path();
    return (folder.filename() == "checkpoints" ? folder.parent_path() : folder) / "metrics.jsonl";
  };
  // The folder, or the file, may be a link to another disk: the run is where the link is.
  const fs::path named = beside(fs::absolute(checkpoint).lexically_normal());
  return fs::exists(named) ? named : beside(fs::weakly_canonical(checkpoint));
}

void keep_metrics_of_branch(const RunFolder& folder, const fs::path& from) {
  const auto there = list_checkpoints(folder.checkpoints());
  const fs::path metrics = folder.file("metrics.jsonl");
  std::error_code not_there;
  if (!fs::exists(metrics)) return;
  if (!there.empty()) {
    if (fs::equivalent(there.front(), from)) return;
    copy_atomically(metrics, next_abandoned_folder(folder.checkpoints()) / metrics.filename());
  } else if (!fs::equivalent(metrics_of(from), metrics, not_there)) {
    // For a run that saved nothing, no folder of abandoned checkpoints is its own.
    int number = 1;
    fs::path aside;
    do {
      aside = folder.file(fmt::format("metrics.abandoned.{}.jsonl", number++));
    } while (fs::exists(aside));
    copy_atomically(metrics, aside);
    log(LogLevel::warning,
        fmt::format("{} held a run without a checkpoint: its metrics are kept as {}",
                    folder.path().string(), aside.filename().string()));
  }
}

void check_same_samples(const CheckpointContents& checkpoint, const std::string& deck) {
  constexpr std::size_t shown = 200;  // bytes of a value
  const auto now = data_values(deck), before = data_values(checkpoint.deck);
  for (const std::string_view key : meaning) {
    const auto at = now.find(std::string(key)), then = before.find(std::string(key));
    if (at == now.end() || then == before.end() || mean_the_same(at->second, then->second))
      continue;
    throw InputError(fmt::format(
        "data.{0} is {1}, but the checkpoint's model was trained with {2}: what it learned would "
        "not fit. Bring back the data, set data.{0} to that of the run's deck.toml, or begin a new "
        "run "
        "with train.init_from.",
        key, without_middle(at->second, shown), without_middle(then->second, shown)));
  }
  if (checkpoint.train.position == 0) return;
  for (const auto& [key, then] : before) {
    const auto at = now.find(key);
    if (std::ranges::find(deciding, key) == deciding.end() || at == now.end() || at->second == then)
      continue;
    throw InputError(fmt::format(
        "the deck says data.{0} = {1}, but the checkpoint was written in the middle of an epoch "
        "with {2}, so the run cannot continue with the epoch's remaining samples. Use --set "
        "data.{0}={2}, or a checkpoint from the end of an epoch.",
        key, at->second, then));
  }
}

}  // namespace lockstep::train
