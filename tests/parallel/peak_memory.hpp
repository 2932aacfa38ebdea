#pragma once
#include <atomic>
#include <cstdint>

#include <lockstep/tensor/storage.hpp>

namespace lockstep::test {

/// Largest memory in use by all ranks of this process together, at the moments of look().
class PeakMemory {
 public:
  void look() {
    const std::int64_t now = memory_stats().in_use;
    std::int64_t before = peak_;
    while (before < now && !peak_.compare_exchange_weak(before, now)) continue;
  }
  [[nodiscard]] double bytes() const { return static_cast<double>(peak_); }

 private:
  std::atomic<std::int64_t> peak_ = 0;
};

}  // namespace lockstep::test
