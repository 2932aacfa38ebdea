#pragma once
// The machine or the allocation, divided into shares for trials that run at the same time.
#include <vector>

#include "elastic/placement.hpp"

namespace lockstep::sweep {

struct Share {
  elastic::Placement placement;
  std::vector<int> cores;  ///< of this machine; empty: not bound
};

struct Division {
  elastic::Hosts hosts;
  int ranks = 1;     ///< of a trial
  int parallel = 0;  ///< shares; 0: as many as have room
  bool oversubscribe = false;
  int threads = 1;         ///< cores of a rank
  std::vector<int> cores;  ///< of this machine, if it alone is used and ranks are bound to cores
};

/// Each share is on one host where that has room, else on slots of hosts in a row. Throws
/// InputError: a trial, or --parallel trials, that do not fit.
[[nodiscard]] std::vector<Share> divide(const Division& input);

}  // namespace lockstep::sweep
