#pragma once
// Where the rings of a run's flight recorders are.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/comm/flight/ring.hpp>

namespace lockstep::utility {

/// What RUN_DIR/flight/where says: the job's number, and the folder of each node where its ranks'
/// rings lie.
struct RingsOfJob {
  std::uint64_t job = 0;
  std::string folder;
};
[[nodiscard]] std::optional<RingsOfJob> read_where(const std::filesystem::path& flight);

/// Adds rings that never reached the run folder, because the launcher ended the ranks: still where
/// flight/where says, if this is one of the job's nodes.
void add_left_behind(const std::filesystem::path& flight, std::vector<FlightRing>& rings);

}  // namespace lockstep::utility
