#pragma once
// Watches the memory of the ranks on this machine, and whether the system killed one for it.
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "run_view.hpp"

namespace lockstep::elastic {

/// A memory limit, and how often the system has killed a process for it.
struct MemoryLimit {
  std::string name;  ///< "memory.max of control group /job" or "the machine's memory"
  std::int64_t bytes = 0;
  std::uint64_t kills = 0;
  std::filesystem::path folder;  ///< folder of the control group; empty: the machine
};

/// Samples memory periodically, since a killed process can no longer be asked.
class MemoryWatch {
 public:
  /// `system`: root of /proc and /sys; tests have their own.
  explicit MemoryWatch(std::filesystem::path system = "/") : system_(std::move(system)) {}

  /// To be called when a start begins.
  void begin() { *this = MemoryWatch(system_); }
  void look(const std::vector<RankProcess>& ranks);

  /// A sentence on why memory ended for `rank` (or, with -1, for the rank that held most): rank,
  /// memory held, limit. None if the system has killed nothing since begin().
  struct Finding {
    int rank = -1;
    std::string text;
  };
  [[nodiscard]] std::optional<Finding> finding(int rank) const;
  /// The last and the largest sample of the rank: "1.2 GiB"; and its own limit (ulimit -v), if any.
  [[nodiscard]] std::string in_words(int rank) const;

  /// The limits on a process: those of its control group, then of the group's parents.
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
