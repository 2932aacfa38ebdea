#pragma once
#include <cstdint>
#include <string>

namespace lockstep {

/// What a process of this machine is doing, for verdicts: "is stopped (state T)", "is running",
/// "is waiting", "is gone".
[[nodiscard]] std::string process_state(int pid);

/// When it was started, in the kernel's ticks since boot: tells it from a later process of the same
/// number. 0 if there is none.
[[nodiscard]] std::uint64_t process_start(int pid);

}  // namespace lockstep
