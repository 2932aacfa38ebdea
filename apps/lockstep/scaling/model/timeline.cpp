#include "scaling/model/timeline.hpp"

#include <algorithm>

namespace lockstep::scaling {

Overlap overlap(double backward_s, const std::vector<std::vector<Transfer>>& rounds) {
  double own = 0;        // own work within backward so far
  double link_free = 0;  // when the link has done everything so far
  const auto send = [&link_free](double now, const Transfer& transfer) {
    link_free = std::max(now, link_free) + transfer.link_s;
  };
  if (!rounds.empty()) {
    for (const Transfer& transfer : rounds.front()) {
      own += transfer.own_s;
      send(transfer.ready_s + own, transfer);
    }
  }
  double now = backward_s + own;
  for (std::size_t round = 1; round < rounds.size(); ++round) {
    now = std::max(now, link_free);
    for (const Transfer& transfer : rounds[round]) {
      now += transfer.own_s;
      send(now, transfer);
    }
  }
  const double end = std::max(now, link_free);
  return {.end_s = end, .exposed_s = end - backward_s};
}

}  // namespace lockstep::scaling
