#pragma once
// Contents of a run folder other than its metrics.
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "json.hpp"

namespace lockstep::report {

/// A line of elastic.jsonl (elastic/history.hpp).
struct ElasticEvent {
  std::string kind, time, text;
  int start = 0, ranks = 0;                ///< 0: not said
  std::int64_t step = -1, lost_steps = 0;  ///< -1: not said
  double seconds = 0;                      ///< of an "end": from its start
  double down_s = 0;                       ///< of a "start": since the end before it
  std::string why;
};

struct SavedCheckpoint {
  std::string file;
  std::int64_t step = 0;
  std::uintmax_t bytes = 0;
  std::int64_t age_s = 0;
  std::string time;  ///< UTC
};

struct RunRecord {
  std::filesystem::path folder;
  std::string name;   ///< the folder's own
  std::string owner;  ///< the process that trains in it now, in words; empty: none
  Json summary;       ///< of summary.json; an object, perhaps empty
  Json program;       ///< of program.json: a program with a loop of its own
  std::string deck;   ///< the text of deck.toml
  std::vector<std::pair<std::string, std::string>> deck_keys;  ///< "train.seed", in TOML
  std::vector<ElasticEvent> elastic;
  std::vector<SavedCheckpoint> checkpoints;  ///< newest first
  std::vector<std::string> faults;           ///< sentences about files that could not be read

  /// Starts in elastic.jsonl; 1 without it.
  [[nodiscard]] int starts() const noexcept;
};

/// Whether a run has begun in the folder.
[[nodiscard]] bool holds_a_run(const std::filesystem::path& folder);

/// Throws InputError if the folder holds no run: it does not exist, is a file, holds something
/// else, or runs are in folders in it, whose names are then given. A file that is damaged is one of
/// `faults`.
[[nodiscard]] RunRecord read_run(const std::filesystem::path& folder);

enum class RunState : std::uint8_t {
  going_on,
  between_starts,  ///< under `lockstep elastic`, which has not ended
  completed,
  stopped,  ///< on request, with its state saved
  over,     ///< neither: it failed, or was killed
};
/// `last_step` of its metrics tells an old summary from its own.
[[nodiscard]] RunState state_of(const RunRecord& run, std::int64_t last_step);
/// "completed", "stopped by SIGTERM", "going on (process 17 on node3 ...)".
[[nodiscard]] std::string state_in_words(const RunRecord& run, std::int64_t last_step);

}  // namespace lockstep::report
