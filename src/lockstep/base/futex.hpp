#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace lockstep {

/// Sleeps while `word` has the value `seen`: until it is woken, or for `at_most`, or shorter. The
/// word may lie in memory that several processes share (futex(2)).
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                std::chrono::microseconds at_most) noexcept;

/// Wakes all threads that sleep on that word. The waking thread must change it first.
void futex_wake_all(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace lockstep
