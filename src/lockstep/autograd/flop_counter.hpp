#pragma once
#include <cstdint>

namespace lockstep {

/// While alive, counts the floating-point operations of the forward matrix products, convolutions
/// and attention on this thread: two for each multiply-add, as PyTorch's FlopCounterMode does.
/// Everything else counts as nothing. Counters nest; the inner one counts for the outer ones too.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  [[nodiscard]] std::int64_t flops() const noexcept { return flops_; }
  /// Those of flops() that belong to fused layers, which skip some of them in backward.
  [[nodiscard]] std::int64_t nominal_flops() const noexcept { return nominal_flops_; }

 private:
  friend void count_flops(std::int64_t flops) noexcept;
  friend void count_nominal_flops(std::int64_t flops) noexcept;
  FlopCounter* outer_;
  std::int64_t flops_ = 0;
  std::int64_t nominal_flops_ = 0;
};

/// Operations call it: adds `flops` to the counters of this thread.
void count_flops(std::int64_t flops) noexcept;
/// The same of a fused layer that skips some of them in backward.
void count_nominal_flops(std::int64_t flops) noexcept;

}  // namespace lockstep
