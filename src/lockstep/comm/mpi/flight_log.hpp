#pragma once
#include <string>

#include <mpi.h>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/mpi/wait.hpp>

namespace lockstep {

/// Enters the group of `comm` into this process's flight recorder, which is made in `dir` if there
/// is none; the ranks agree on the group's number. Collective over `comm`, all of whose ranks are
/// on their way here.
[[nodiscard]] FlightLog open_flight_log(MPI_Comm comm, const std::string& dir, const MpiWait& wait);

}  // namespace lockstep
