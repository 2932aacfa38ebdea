#pragma once
#include <cstddef>

#include <lockstep/base/clock.hpp>

namespace lockstep {

/// Between the looks of who has waited so long for other ranks: gives the core to somebody else.
/// What is waited for mostly comes soon, so at first it only yields; after 5 ms it sleeps, for a
/// 64th of what it has waited and at most 1 ms, or, where as many threads of this process as
/// `crowd` wait so, up to 8 ms, which keeps their looks from taking more than half of the cores.
///
/// Who only yields can keep a core from others: of four ranks on two busy cores, bound to one each,
/// Linux 6.18 did not run one for up to 30 s while another yielded in a barrier (rpc claims on 2
/// nodes of 2 ranks: 2 to 24 s; with the sleep 1.1 to 1.3 s).
///
/// A look takes some 30 us of processor time on a virtual machine: every ms those of 1024 threads
/// are more than 2 cores can do, and their first sum took over 5 minutes (now 3 s).
void make_room(Clock::duration waited, std::size_t crowd = 1);

/// The same back-off, for who is woken from its sleep by an event: how long it stays awake, for
/// which part of the time waited it sleeps then, and for how long at most.
inline constexpr std::chrono::milliseconds pause_after{5};
inline constexpr int pause_part = 64;
[[nodiscard]] Clock::duration longest_pause(std::size_t crowd) noexcept;

}  // namespace lockstep
