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
  int code = 0;                   ///< of the launcher
  Blame blame;                    ///< in its words
  int first_dead = -1;            ///< the rank whose process was seen to end first, on this machine
  bool hung = false;              ///< ended by the supervisor, for want of life
  bool unheeded = false;          ///< ended by the supervisor, which had asked for it in vain
  bool change_was_asked = false;  ///< by the supervisor, for other members
  bool stop_was_asked = false;    ///< of the supervisor
  bool stopped_before_up = false;  ///< there was nothing to save yet
  std::string nobody_answers;      ///< at the first start: no host does, and why
  double silent_s = 0;             ///< since the last sign of life, if hung
  double waited_s = 0;             ///< since it was asked to save, if unheeded
  std::vector<FlightRing> rings;   ///< by rank
};

[[nodiscard]] Ending diagnose(const Evidence& evidence, const Placement& placement,
                              const RunView& run, const MemoryWatch& memory);

}  // namespace lockstep::elastic
