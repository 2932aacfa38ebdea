#pragma once
#include <cstdint>
#include <string>

namespace lockstep {

/// An observed state of a process.
enum class ProcessState : std::uint8_t {
  unknown,  ///< nobody has looked
  running,
  waiting,
  waiting_for_disk,
  stopped,
  traced,
  other,
  died,  ///< and is not yet forgotten by its parent
  gone,
};

/// Of a process of this machine, now.
[[nodiscard]] ProcessState process_state(int pid);

/// "is running", "is stopped (state T)", "has died" ...; empty for unknown.
[[nodiscard]] const char* words(ProcessState state) noexcept;

/// False if it will not go on by itself.
[[nodiscard]] bool can_run(ProcessState state) noexcept;

/// When it was started, in the kernel's ticks since boot: tells it from a later process of the same
/// number. 0 if there is none.
[[nodiscard]] std::uint64_t process_start(int pid);

}  // namespace lockstep
