#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lockstep {

// The least and the greatest of two elements, the same bits in whatever order many are compared:
// -0 is below +0; NaN, with one bit pattern, is the result if any input is NaN. Without branches,
// so that loops become vectors, of one instruction for each comparison with its choice.

namespace detail {
template <class T>
using BitsOf = std::conditional_t<sizeof(T) == sizeof(std::uint32_t), std::uint32_t, std::uint64_t>;

/// NaN if a or b is.
template <class T>
T unless_nan(T a, T b, BitsOf<T> result) {
  return std::isunordered(a, b) ? std::numeric_limits<T>::quiet_NaN() : std::bit_cast<T>(result);
}
}  // namespace detail

struct Min {
  template <class T>
  T operator()(T a, T b) const {
    const T less = b < a ? b : a;
    if constexpr (!std::is_floating_point_v<T>) {
      return less;
    } else {
      using Bits = detail::BitsOf<T>;
      const T same = a < b ? a : b;  // the other one if both are equal: zeros' signs may differ
      return detail::unless_nan<T>(a, b, std::bit_cast<Bits>(less) | std::bit_cast<Bits>(same));
    }
  }
};

struct Max {
  template <class T>
  T operator()(T a, T b) const {
    const T greater = a < b ? b : a;
    if constexpr (!std::is_floating_point_v<T>) {
      return greater;
    } else {
      using Bits = detail::BitsOf<T>;
      const T same = b < a ? a : b;  // as above
      return detail::unless_nan<T>(a, b, std::bit_cast<Bits>(greater) & std::bit_cast<Bits>(same));
    }
  }
};

}  // namespace lockstep
