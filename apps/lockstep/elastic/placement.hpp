#pragma once
// Which ranks run where: arithmetic alone.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/base/clock.hpp>

#include "members.hpp"

namespace lockstep::elastic {

/// Numbers of ranks that will do.
struct Sizes {
  int min = 1, max = 1;
  std::int64_t divide = 0;  ///< they must divide this; 0: any will do

  /// The largest that fits into `slots`; 0 if none does.
  [[nodiscard]] int largest(std::int64_t slots) const noexcept;
};

/// Ranks on hosts, filled one after the other: rank 0 is on the first.
struct Placement {
  Hosts hosts;  ///< slots: ranks there, at least 1

  [[nodiscard]] int ranks() const noexcept;
  /// Of a rank; empty if there is no such rank.
  [[nodiscard]] std::string host_of(int rank) const;
  /// No host is to hold more ranks than it has slots in `hosts`.
  [[nodiscard]] bool fits(const Hosts& available) const;
};
/// Without ranks if there are too few slots.
[[nodiscard]] Placement place(const Hosts& hosts, const Sizes& sizes);

/// What members have lost for a while.
class Losses {
 public:
  /// One slot of a host is not used until then.
  void lose_slot(const std::string& host, Clock::time_point until) { slots_.insert({host, until}); }
  /// Nor is any.
  void lose_host(const std::string& host, Clock::time_point until) { hosts_[host] = until; }
  /// From now on at most so many ranks there.
  void limit(const std::string& host, int slots);
  /// Lost slots are back, lost hosts are not.
  void forgive_slots() { slots_.clear(); }

  /// Hosts whose time is over: to be asked whether they answer, before they count again.
  [[nodiscard]] std::vector<std::string> hosts_due(Clock::time_point now) const;
  void host_is_back(const std::string& host) { hosts_.erase(host); }

  /// What is left of `hosts`; a lost host, until host_is_back, has no slots.
  [[nodiscard]] Hosts left(const Hosts& hosts, Clock::time_point now) const;

 private:
  std::multimap<std::string, Clock::time_point> slots_;
  std::map<std::string, Clock::time_point> hosts_;
  std::map<std::string, int> limits_;
};

}  // namespace lockstep::elastic
