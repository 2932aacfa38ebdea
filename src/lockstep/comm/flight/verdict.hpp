#pragma once
#include <span>
#include <string>
#include <vector>

#include <lockstep/comm/flight/ring.hpp>

namespace lockstep {

/// The diagnosis of a hanging job from a set of rings.
struct FlightVerdict {
  std::string text;        ///< a sentence or two
  std::vector<int> ranks;  ///< of MPI_COMM_WORLD, to look at first; empty if none stands out
};

/// Compares the numbers of collectives that the ranks have entered, per group. `rings` belong to
/// one job, at least one ring, ordered by rank; some may be missing, which is a finding too.
[[nodiscard]] FlightVerdict flight_verdict(std::span<const FlightRing> rings);

/// The newest operation of a rank, whatever its group; nullptr if it has started none.
[[nodiscard]] const FlightCall* newest_call(const FlightRing& ring);
/// The newest that is over, or nullptr.
[[nodiscard]] const FlightCall* newest_completed_call(const FlightRing& ring);

}  // namespace lockstep
