#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/extents.hpp>
#include <lockstep/tensor/kernels/pool/pool2d.hpp>

// Pools of sequences [N,C,L] (dims 1), images [N,C,H,W] (2) and volumes [N,C,D,H,W] (3). Images in
// square windows without ceil_mode are pooled as they are stored, others of 16 bits in f32. A GPU
// pools images in channel blocks as such: the result is in blocks, too, unless it has one pixel or
// a max pool's windows have more than 256 elements.

namespace lockstep {

/// The windows of a pool. Their stride is the kernel's extents unless it is given. With ceil_mode
/// windows may hang over the end, if they begin before it.
template <std::size_t dims>
struct PoolOptions {
  Extents<dims> kernel;
  PoolStride<dims> stride{};
  Extents<dims> padding = 0;
  bool ceil_mode = false;
};
using Pool1dOptions = PoolOptions<1>;
using Pool2dOptions = PoolOptions<2>;
using Pool3dOptions = PoolOptions<3>;

/// The largest element of each window; padding counts as -inf; among equals the first takes the
/// gradient. Throws ShapeError if the window does not fit x, if x has no elements along a dimension
/// after C or 2^31 in a plane, or if padding is above half the kernel. One number or a list in
/// place of the options is the kernel: max_pool2d(x, 2).
template <std::size_t dims>
[[nodiscard]] Variable max_pool(const Variable& x, const PoolOptions<dims>& options);
template <std::size_t dims>
[[nodiscard]] Variable max_pool(const Variable& x, const Extents<dims>& kernel) {
  return max_pool(x, PoolOptions<dims>{.kernel = kernel});
}

/// The mean of each window: with count_include_pad, padding counts as zeros; a divisor other than 0
/// replaces the number of elements. Errors and a kernel alone as for max_pool.
template <std::size_t dims>
[[nodiscard]] Variable avg_pool(const Variable& x, const PoolOptions<dims>& options,
                                bool count_include_pad = true, std::int64_t divisor_override = 0);
template <std::size_t dims>
[[nodiscard]] Variable avg_pool(const Variable& x, const Extents<dims>& kernel) {
  return avg_pool(x, PoolOptions<dims>{.kernel = kernel});
}

/// Windows chosen so that the outputs have these extents: output i of m is of the elements
/// [floor(i n / m), ceil((i + 1) n / m)).
template <std::size_t dims>
[[nodiscard]] Variable adaptive_max_pool(const Variable& x, const Extents<dims>& output_size);
template <std::size_t dims>
[[nodiscard]] Variable adaptive_avg_pool(const Variable& x, const Extents<dims>& output_size);

// The same by PyTorch's names.

[[nodiscard]] inline Variable max_pool1d(const Variable& x, const PoolOptions<1>& options) {
  return max_pool(x, options);
}
[[nodiscard]] inline Variable max_pool1d(const Variable& x, const Extents<1>& kernel) {
  return max_pool(x, kernel);
}
[[nodiscard]] inline Variable max_pool2d(const Variable& x, const PoolOptions<2>& options) {
  return max_pool(x, options);
}
[[nodiscard]] inline Variable max_pool2d(const Variable& x, const Extents<2>& kernel) {
  return max_pool(x, kernel);
}
[[nodiscard]] inline Variable max_pool3d(const Variable& x, const PoolOptions<3>& options) {
  return max_pool(x, options);
}
[[nodiscard]] inline Variable max_pool3d(const Variable& x, const Extents<3>& kernel) {
  return max_pool(x, kernel);
}

[[nodiscard]] inline Variable avg_pool1d(const Variable& x, const PoolOptions<1>& options,
                                         bool count_include_pad = true) {
  return avg_pool(x, options, count_include_pad);
}
[[nodiscard]] inline Variable avg_pool1d(const Variable& x, const Extents<1>& kernel) {
  return avg_pool(x, kernel);
}
[[nodiscard]] inline Variable avg_pool2d(const Variable& x, const PoolOptions<2>& options,
                                         bool count_include_pad = true,
                                         std::int64_t divisor_override = 0) {
  return avg_pool(x, options, count_include_pad, divisor_override);
}
[[nodiscard]] inline Variable avg_pool2d(const Variable& x, const Extents<2>& kernel) {
  return avg_pool(x, kernel);
}
[[nodiscard]] inline Variable avg_pool3d(const Variable& x, const PoolOptions<3>& options,
                                         bool count_include_pad = true,
                                         std::int64_t divisor_override = 0) {
  return avg_pool(x, options, count_include_pad, divisor_override);
}
[[nodiscard]] inline Variable avg_pool3d(const Variable& x, const Extents<3>& kernel) {
  return avg_pool(x, kernel);
}

[[nodiscard]] inline Variable adaptive_max_pool1d(const Variable& x, const Extents<1>& size) {
  return adaptive_max_pool(x, size);
}
[[nodiscard]] inline Variable adaptive_max_pool2d(const Variable& x, const Extents<2>& size) {
  return adaptive_max_pool(x, size);
}
[[nodiscard]] inline Variable adaptive_max_pool3d(const Variable& x, const Extents<3>& size) {
  return adaptive_max_pool(x, size);
}
[[nodiscard]] inline Variable adaptive_avg_pool1d(const Variable& x, const Extents<1>& size) {
  return adaptive_avg_pool(x, size);
}
[[nodiscard]] inline Variable adaptive_avg_pool2d(const Variable& x, const Extents<2>& size = 1) {
  return adaptive_avg_pool(x, size);
}
[[nodiscard]] inline Variable adaptive_avg_pool3d(const Variable& x, const Extents<3>& size) {
  return adaptive_avg_pool(x, size);
}

namespace detail {
/// The windows that kernels for square ones take, if these are such.
[[nodiscard]] std::optional<SquareWindow> square_window(const PoolOptions<2>& options) noexcept;
}  // namespace detail

}  // namespace lockstep
