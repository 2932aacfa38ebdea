#pragma once
// How much memory the ranks on this machine hold, and whether the system took one of them for it.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "run_view.hpp"

namespace lockstep::elastic {

/// A limit on memory and how often the system has killed for it.
struct MemoryLimit {
  std::string name;  ///< "memory.max of control group /job" or "the machine's memory"
  std::int64_t bytes = 0;
  std::uint64_t kills = 0;
  std::filesystem::path folder;  ///< of the control group; empty: the machine
};

/// Samples, as a killed process can no longer be asked.
class MemoryWatch {
 public:
  /// `system`: where /proc and /sys are; tests have their own.
  explicit MemoryWatch(std::filesystem::path system = "/") : system_(std::move(system)) {}

  /// A start begins.
  void begin() { *this = MemoryWatch(system_); }
  void look(const std::vector<RankProcess>& ranks);

  /// A sentence about why memory ended for `rank`, or, if that is -1, for the rank that held most:
  /// rank, what it held, the limit. None if the system has killed nothing since begin().
  struct Finding {
    int rank = -1;
    std::string text;
  };
  [[nodiscard]] std::optional<Finding> finding(int rank) const;
  /// What the rank held when it was last looked at, and at most: "1.2 GiB"; and its own limit
  /// (ulimit -v), if it has one.
  [[nodiscard]] std::string in_words(int rank) const;

  /// The limits that a process is under, its control group's first and then its parents'.
  [[nodiscard]] std::vector<MemoryLimit> limits_of(int pid) const;

 private:
  struct Sample {
    std::int64_t held = 0, most = 0, own_limit = 0;
  };
  [[nodiscard]] Sample sample(int pid) const;
  [[nodiscard]] std::optional<MemoryLimit> group_limit(const std::filesystem::path& folder,
                                                       const std::string& name) const;
  [[nodiscard]] MemoryLimit machine() const;

  std::filesystem::path system_;
  std::map<int, Sample> samples_;    ///< by rank
  std::vector<MemoryLimit> limits_;  ///< as first seen
};

}  // namespace lockstep::elastic
