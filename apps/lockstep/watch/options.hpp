#pragma once
#include <string>

namespace lockstep::watch {

/// Options of `lockstep watch`.
struct Options {
  std::string run;    ///< a run folder, which may not exist yet
  double every = 2;   ///< seconds between updates
  bool once = false;  ///< show it as it is and end
};

}  // namespace lockstep::watch
