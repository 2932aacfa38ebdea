#pragma once
#include <cstddef>

#include <lockstep/base/clock.hpp>

namespace lockstep {

/// A thread that has waited this long for other ranks calls it between polls: it gives the core to
/// another thread. Most waits are short, so at first it only yields. After 5 ms it sleeps for a
/// 64th of the time waited, at most 1 ms. If `crowd` threads of this process wait, more than some
/// 17 a core, it sleeps for longer, at most 50 ms, so that their polls take no more than half of
/// the cores; from some 130 a core on it sleeps as long at once.
///
/// Yielding alone can keep a core from others: with four ranks on two busy cores, each bound to
/// one, Linux 6.18 did not run one for up to 30 s while another yielded in a barrier (rpc claims on
/// 2 nodes of 2 ranks: 2 to 24 s; with the sleep 1.1 to 1.3 s).
///
/// A poll takes about 30 us of processor time on a virtual machine: polls of 1024 threads every ms
/// need more than 2 cores, and their first sum took over 5 minutes (now 0.5 s).
void make_room(Clock::duration waited, std::size_t crowd = 1);

/// The same back-off for a thread that an event wakes from its sleep: how long it stays awake,
/// which part of the time waited it sleeps then, and the longest and the shortest sleep. These
/// depend on the crowd of that moment: threads that had begun to wait among a few kept their short
/// sleeps when a thousand had come, and took the cores from those that had not begun.
inline constexpr std::chrono::milliseconds pause_after{5};
inline constexpr int pause_part = 64;
[[nodiscard]] Clock::duration longest_pause(std::size_t crowd) noexcept;
[[nodiscard]] Clock::duration shortest_pause(std::size_t crowd) noexcept;

}  // namespace lockstep
