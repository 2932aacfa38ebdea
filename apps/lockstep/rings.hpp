#pragma once
// Locates the flight recorder rings of a run.
#include <filesystem>
#include <vector>

#include <lockstep/comm/flight/ring.hpp>

namespace lockstep::utility {

/// Adds rings that never reached the run folder because the launcher ended the ranks. flight/where
/// names their folder, which must be on this node.
void add_left_behind(const std::filesystem::path& flight, std::vector<FlightRing>& rings);

}  // namespace lockstep::utility
