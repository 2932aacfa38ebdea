#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace lockstep {

/// A whole number; a truth value is none.
template <class T>
concept WholeNumber = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

namespace detail {
/// Throws ShapeError: `given` numbers where one or `dims` are needed.
[[noreturn]] void refuse_extents(std::size_t given, std::size_t dims);
}  // namespace detail

/// One number for each of `dims` spatial dimensions: a kernel, stride, padding, dilation or size.
/// One number fills all of them, a list has exactly `dims`; anything else does not compile.
template <std::size_t dims>
class Extents {
 public:
  template <WholeNumber Number>
  constexpr Extents(Number all) noexcept {
    for (auto& value : values_) value = static_cast<std::int64_t>(all);
  }
  /// Outermost first: (height, width), (depth, height, width).
  template <WholeNumber... Numbers>
  requires(dims > 1 && sizeof...(Numbers) == dims) constexpr Extents(Numbers... each) noexcept
      : values_{static_cast<std::int64_t>(each)...} {}
  constexpr Extents(const std::array<std::int64_t, dims>& each) noexcept : values_(each) {}
  /// Of a list that is known at run time; throws ShapeError unless it has one number or `dims`.
  [[nodiscard]] static Extents from(std::span<const std::int64_t> list) {
    if (list.size() != 1 && list.size() != dims) detail::refuse_extents(list.size(), dims);
    Extents result = list[0];
    if (list.size() == dims) std::ranges::copy(list, result.values_.begin());
    return result;
  }

  [[nodiscard]] constexpr std::int64_t operator[](std::size_t d) const noexcept {
    return values_[d];
  }
  [[nodiscard]] constexpr std::int64_t& operator[](std::size_t d) noexcept { return values_[d]; }
  [[nodiscard]] constexpr const std::int64_t* begin() const noexcept { return values_.data(); }
  [[nodiscard]] constexpr const std::int64_t* end() const noexcept { return values_.data() + dims; }
  /// True if all of them are equal.
  [[nodiscard]] constexpr bool uniform() const noexcept {
    return std::all_of(begin(), end(), [&](std::int64_t value) { return value == values_[0]; });
  }

  friend constexpr bool operator==(const Extents&, const Extents&) = default;

 private:
  std::array<std::int64_t, dims> values_{};
};

/// The stride of a pool: one number or a list, as in Extents; default: the kernel's extents.
template <std::size_t dims>
class PoolStride {
 public:
  constexpr PoolStride() = default;
  template <std::convertible_to<Extents<dims>> Given>
  constexpr PoolStride(const Given& stride) : given_(true), stride_(stride) {}
  template <WholeNumber... Numbers>
  requires(dims > 1 && sizeof...(Numbers) == dims) constexpr PoolStride(Numbers... each)
      : given_(true), stride_(each...) {}

  [[nodiscard]] constexpr const Extents<dims>& or_kernel(
      const Extents<dims>& kernel) const noexcept {
    return given_ ? stride_ : kernel;
  }

 private:
  bool given_ = false;
  Extents<dims> stride_ = 0;
};

}  // namespace lockstep
