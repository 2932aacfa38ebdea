#pragma once
#include <vector>

#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/finding.hpp>

namespace lockstep::train {

/// The link from a rank to the next one.
struct Link {
  int from = 0, to = 0;
  double latency_us = 0;      ///< one way, 8 bytes: half the first decile of the round trips
  double bandwidth_gb_s = 0;  ///< one way, 4 MiB: the best of a few round trips
};

/// Ping-pong between neighbour ranks, all pairs of even ranks and their successors at the same
/// time, then all pairs of odd ones. The same list on every rank; a fraction of a second.
/// Collective.
[[nodiscard]] std::vector<Link> measure_links(ProcessGroup& group);

/// Links much slower than the median of their kind (within machines, or between them). Needs at
/// least three of a kind. A warning for each.
[[nodiscard]] Findings check_links(const std::vector<Link>& links, const NodeLayout& layout);

}  // namespace lockstep::train
