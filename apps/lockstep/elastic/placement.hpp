#pragma once
// Assigns ranks to hosts; arithmetic only.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/base/clock.hpp>

#include "members.hpp"

namespace lockstep::elastic {

/// Allowed numbers of ranks.
struct Sizes {
  int min = 1, max = 1;
  /// Ranks that hold one model together (mesh.tp, mesh.cp): each number is a multiple.
  std::int64_t multiple = 1;
  std::int64_t divide = 0;  ///< a number over `multiple` must divide this; 0: no condition

  [[nodiscard]] bool allows(std::int64_t ranks) const noexcept;
  /// The largest number that fits into `slots`; 0 if none does.
  [[nodiscard]] int largest(std::int64_t slots) const noexcept;
  /// 0 if there is none.
  [[nodiscard]] int smallest() const noexcept;
};

/// Ranks on hosts, filled in order: rank 0 is on the first.
struct Placement {
  Hosts hosts;  ///< slots: number of ranks there, at least 1

  [[nodiscard]] int ranks() const noexcept;
  /// Host of a rank; empty if there is no such rank.
  [[nodiscard]] std::string host_of(int rank) const;
  /// Whether no host holds more ranks than its slots in `hosts`.
  [[nodiscard]] bool fits(const Hosts& available) const;
};
/// Returns no ranks if there are too few slots.
[[nodiscard]] Placement place(const Hosts& hosts, const Sizes& sizes);

/// Slots and hosts lost for a while.
class Losses {
 public:
  /// One slot of a host is not used until then.
  void lose_slot(const std::string& host, Clock::time_point until) { slots_.insert({host, until}); }
  /// No slot of a host is used until then.
  void lose_host(const std::string& host, Clock::time_point until) { hosts_[host] = until; }
  /// From now on the host takes at most this many ranks.
  void limit(const std::string& host, int slots);
  /// Returns lost slots to use, but not lost hosts.
  void forgive_slots() { slots_.clear(); }

  /// Hosts whose time is over. They count again once they answer.
  [[nodiscard]] std::vector<std::string> hosts_due(Clock::time_point now) const;
  void host_is_back(const std::string& host) { hosts_.erase(host); }

  /// The usable part of `hosts`. A lost host has no slots until host_is_back().
  [[nodiscard]] Hosts left(const Hosts& hosts, Clock::time_point now) const;

 private:
  std::multimap<std::string, Clock::time_point> slots_;
  std::map<std::string, Clock::time_point> hosts_;
  std::map<std::string, int> limits_;
};

}  // namespace lockstep::elastic
