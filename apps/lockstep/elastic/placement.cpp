#include "placement.hpp"

#include <algorithm>
#include <numeric>

namespace lockstep::elastic {

bool Sizes::allows(std::int64_t ranks) const noexcept {
  return ranks >= min && ranks <= max && ranks % multiple == 0 &&
         (divide == 0 || divide % (ranks / multiple) == 0);
}

int Sizes::largest(std::int64_t slots) const noexcept {
  auto ranks = static_cast<int>(std::min<std::int64_t>(slots, max));
  while (ranks >= min && !allows(ranks)) --ranks;
  return ranks >= min ? ranks : 0;
}

int Sizes::smallest() const noexcept {
  int ranks = min;
  while (ranks <= max && !allows(ranks)) ++ranks;
  return ranks <= max ? ranks : 0;
}

int Placement::ranks() const noexcept {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const Host& host) { return sum + host.slots; });
}

std::string Placement::host_of(int rank) const {
  for (const Host& host : hosts) {
    if (rank >= 0 && rank < host.slots) return host.name;
    rank -= host.slots;
  }
  return "";
}

bool Placement::fits(const Hosts& available) const {
  return std::ranges::all_of(hosts, [&](const Host& used) {
    const auto at = std::ranges::find(available, used.name, &Host::name);
    return at != available.end() && at->slots >= used.slots;
  });
}

Placement place(const Hosts& hosts, const Sizes& sizes) {
  const auto slots =
      std::accumulate(hosts.begin(), hosts.end(), std::int64_t{0},
                      [](std::int64_t sum, const Host& host) { return sum + host.slots; });
  Placement placement;
  int rest = sizes.largest(slots);
  for (const Host& host : hosts) {
    const int here = std::min(rest, host.slots);
    if (here > 0) placement.hosts.push_back({host.name, here});
    rest -= here;
  }
  return placement;
}

void Losses::limit(const std::string& host, int slots) {
  const auto [at, is_new] = limits_.try_emplace(host, slots);
  at->second = std::min(at->second, slots);
}

std::vector<std::string> Losses::hosts_due(Clock::time_point now) const {
  std::vector<std::string> due;
  for (const auto& [host, until] : hosts_) {
    if (until <= now) due.push_back(host);
  }
  return due;
}

Hosts Losses::left(const Hosts& hosts, Clock::time_point now) const {
  Hosts left = hosts;
  for (Host& host : left) {
    const auto [first, last] = slots_.equal_range(host.name);
    host.slots -= static_cast<int>(
        std::count_if(first, last, [&](const auto& loss) { return loss.second > now; }));
    const auto most = limits_.find(host.name);
    if (most != limits_.end()) host.slots = std::min(host.slots, most->second);
    if (hosts_.contains(host.name) || host.slots < 0) host.slots = 0;
  }
  std::erase_if(left, [](const Host& host) { return host.slots == 0; });
  return left;
}

}  // namespace lockstep::elastic
