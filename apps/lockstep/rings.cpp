#include "rings.hpp"

#include <algorithm>

#include <lockstep/train/report/flight_report.hpp>

namespace lockstep::utility {

void add_left_behind(const std::filesystem::path& flight, std::vector<FlightRing>& rings) {
  const auto where = train::read_where(flight);
  if (!where) return;
  for (FlightRing& ring : read_flight_rings(where->folder, where->job)) {
    const bool known = std::ranges::find(rings, ring.rank, &FlightRing::rank) != rings.end();
    if (!known) rings.push_back(std::move(ring));
  }
}

}  // namespace lockstep::utility
