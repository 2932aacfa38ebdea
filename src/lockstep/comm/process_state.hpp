#pragma once
#include <string>

namespace lockstep {

/// What a process of this machine is doing, for verdicts: "is stopped (state T)", "is running",
/// "is waiting", "is gone".
[[nodiscard]] std::string process_state(int pid);

}  // namespace lockstep
