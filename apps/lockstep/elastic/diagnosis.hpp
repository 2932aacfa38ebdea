#pragma once
// Determines why a start ended, from all available evidence.
#include "history.hpp"
#include "launcher.hpp"
#include "memory_watch.hpp"
#include "placement.hpp"
#include "run_view.hpp"

namespace lockstep::elastic {

/// Evidence after the launcher has ended.
struct Evidence {
  int code = 0;                    ///< exit code of the launcher
  Blame blame;                     ///< blame found in its output
  int first_dead = -1;             ///< first rank whose process was seen to end on this machine
  bool hung = false;               ///< ended by the supervisor: no sign of life
  bool change_was_asked = false;   ///< stopped by the supervisor for a change of members
  bool stop_was_asked = false;     ///< a stop was requested from the supervisor
  bool stopped_before_up = false;  ///< stopped before there was anything to save
  std::string nobody_answers;      ///< at the first start: the reason, if no host answers
  double silent_s = 0;             ///< since the last sign of life, if hung
  std::vector<FlightRing> rings;   ///< by rank
};

[[nodiscard]] Ending diagnose(const Evidence& evidence, const Placement& placement,
                              const RunView& run, const MemoryWatch& memory);

}  // namespace lockstep::elastic
