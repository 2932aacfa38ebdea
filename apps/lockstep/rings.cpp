#include "rings.hpp"

#include <algorithm>
#include <fstream>

namespace lockstep::utility {

std::optional<RingsOfJob> read_where(const std::filesystem::path& flight) {
  std::ifstream where(flight / "where");
  RingsOfJob rings;
  if (!(where >> std::hex >> rings.job >> std::ws) || !std::getline(where, rings.folder))
    return std::nullopt;
  return rings;
}

void add_left_behind(const std::filesystem::path& flight, std::vector<FlightRing>& rings) {
  const auto where = read_where(flight);
  if (!where) return;
  for (FlightRing& ring : read_flight_rings(where->folder, where->job)) {
    const bool known = std::ranges::find(rings, ring.rank, &FlightRing::rank) != rings.end();
    if (!known) rings.push_back(std::move(ring));
  }
}

}  // namespace lockstep::utility
