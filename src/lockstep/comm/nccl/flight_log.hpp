#pragma once
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A new group's part of the process's flight recorder, if it has one. Collective over `control`.
[[nodiscard]] FlightLog open_flight_log(ProcessGroup& control);

}  // namespace lockstep
