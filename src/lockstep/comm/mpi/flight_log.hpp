#pragma once
#include <string>

#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/mpi/ranks.hpp>

namespace lockstep {

/// Adds the group of `ranks` to this process's flight recorder, which is made in `dir` if there is
/// none; the ranks agree on the group's number. Collective over them; all must be known to call it.
[[nodiscard]] FlightLog open_flight_log(const MpiRanks& ranks, const std::string& dir,
                                        const MpiWait& wait);

}  // namespace lockstep
