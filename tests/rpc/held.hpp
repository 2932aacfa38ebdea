#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

namespace lockstep::test {

/// One a caller: calls of hold() end when it is opened.
inline std::array<std::atomic<bool>, 16> held;
inline std::atomic<bool>& held_by(int caller) { return held.at(static_cast<std::size_t>(caller)); }
inline void hold(int caller) {
  while (!held_by(caller).exchange(false))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
inline void let_go(int caller) { held_by(caller) = true; }

}  // namespace lockstep::test
