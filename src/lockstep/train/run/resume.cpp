#include <lockstep/train/run/resume.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <sstream>
#include <string_view>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_local_copies.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// Keys of [data] that determine the samples of an epoch and their order. The path does not: data
/// may move. Nor do transforms of a sample, or the test set.
constexpr std::array<std::string_view, 18> deciding{"kind",
                                                    "context",
                                                    "train_limit",
                                                    "validation_fraction",
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

/// These keys of a resolved deck, one per line, with their values in TOML.
std::map<std::string, std::string> deciding_values(const std::string& deck) {
  std::map<std::string, std::string> values;
  std::istringstream lines(deck);
  bool in_data = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('[')) in_data = line == "[data]";
    const auto equals = line.find(" = ");
    if (!in_data || equals == std::string::npos) continue;
    const std::string key = line.substr(0, equals);
    if (std::ranges::find(deciding, key) != deciding.end()) values[key] = line.substr(equals + 3);
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
  if (checkpoint.train.position == 0) return;
  const auto now = deciding_values(deck);
  for (const auto& [key, then] : deciding_values(checkpoint.deck)) {
    const auto at = now.find(key);
    if (at == now.end() || at->second == then) continue;
    throw InputError(fmt::format(
        "the deck says data.{0} = {1}, but the checkpoint was written in the middle of an epoch "
        "with {2}, so the run cannot continue with the epoch's remaining samples. Use --set "
        "data.{0}={2}, or a checkpoint from the end of an epoch.",
        key, at->second, then));
  }
}

}  // namespace lockstep::train
