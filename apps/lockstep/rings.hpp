#pragma once
// Where the rings of a run's flight recorders are.
#include <filesystem>
#include <vector>

#include <lockstep/comm/flight/ring.hpp>

namespace lockstep::utility {

/// Adds rings that never reached the run folder, because the launcher ended the ranks: still where
/// flight/where says, if this is one of the job's nodes.
void add_left_behind(const std::filesystem::path& flight, std::vector<FlightRing>& rings);

}  // namespace lockstep::utility
