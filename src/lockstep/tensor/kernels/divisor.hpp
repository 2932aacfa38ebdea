#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>

namespace lockstep::detail {

/// Divides indices in [0, largest] by one positive number, or, where there is no index, by 0. Below
/// 2^31 that is a product and a shift (Granlund and Montgomery 1994, "Division by invariant
/// integers using multiplication"): with 2^(l-1) < divisor <= 2^l and factor = ceil(2^(31+l) /
/// divisor), factor n / 2^(31+l) exceeds n / divisor by less than n / (2^31 divisor) < 1 / divisor.
class Divisor {
 public:
  Divisor(std::int64_t divisor, std::int64_t largest)
      : divisor_(std::max<std::int64_t>(divisor, 1)),
        is_small_(divisor < 1LL << 31 && largest < 1LL << 31) {
    if (!is_small_) return;
    const auto d = static_cast<std::uint64_t>(divisor_);
    shift_ = 31 + std::bit_width(d - 1);
    factor_ = ((std::uint64_t{1} << shift_) + d - 1) / d;
  }

  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t quotient(std::int64_t n) const {
    if (!is_small_) return n / divisor_;
    const auto small = static_cast<std::uint64_t>(static_cast<std::uint32_t>(n));
    return static_cast<std::int64_t>(small * factor_ >> shift_);
  }
  [[nodiscard]] LOCKSTEP_FUNCTION std::int64_t remainder(std::int64_t n) const {
    return n - quotient(n) * divisor_;
  }

 private:
  std::int64_t divisor_;
  std::uint64_t factor_ = 0;  // below 2^32
  int shift_ = 0;
  bool is_small_;
};

}  // namespace lockstep::detail
