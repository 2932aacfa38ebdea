#pragma once
#include <cstdint>
#include <functional>
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

/// The number of its parent; 0 if there is no such process.
[[nodiscard]] int parent_of(int pid);

/// A variable of the environment that it was started with; empty if it has none, or if this user
/// may not read it.
[[nodiscard]] std::string variable_of(int pid, const std::string& name);

/// Calls visit(pid) for each process of this machine, also for one that has died and was not waited
/// for. Never throws by itself.
void for_each_process(const std::function<void(int pid)>& visit);

}  // namespace lockstep
