#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/autograd/operand.hpp>

// Pools of sequences [N,C,L] (dims 1), images (2) and volumes (3), with windows of any extents; on
// the host. For square windows over images there are max_pool2d and avg_pool2d
// (functional/conv.hpp).

namespace lockstep {

/// A stride of 0 is the kernel's extent, as in PyTorch. With ceil_mode windows may hang over the
/// end, if they begin before it.
template <std::size_t dims>
struct PoolOptions {
  std::array<std::int64_t, dims> kernel;
  std::array<std::int64_t, dims> stride{}, padding{};
  bool ceil_mode = false;
};

/// The largest element of each window; padding counts as -inf; among equals the first takes the
/// gradient. Throws ShapeError where window and x do not fit, x has no elements along a dimension
/// behind C or 2^31 in a plane, or padding is above half the kernel.
template <std::size_t dims>
[[nodiscard]] Variable max_pool(const Operand& x, const PoolOptions<dims>& options);

/// The mean of each window: padding counts as zeros with count_include_pad; a divisor other than 0
/// takes the place of their number.
template <std::size_t dims>
[[nodiscard]] Variable avg_pool(const Operand& x, const PoolOptions<dims>& options,
                                bool count_include_pad = true, std::int64_t divisor_override = 0);

/// Windows chosen so that the outputs have these extents: output i of m is of the elements
/// [floor(i n / m), ceil((i + 1) n / m)).
template <std::size_t dims>
[[nodiscard]] Variable adaptive_max_pool(const Operand& x,
                                         const std::array<std::int64_t, dims>& output_size);
template <std::size_t dims>
[[nodiscard]] Variable adaptive_avg_pool(const Operand& x,
                                         const std::array<std::int64_t, dims>& output_size);

[[nodiscard]] inline Variable max_pool1d(const Operand& x, const PoolOptions<1>& options) {
  return max_pool(x, options);
}
[[nodiscard]] inline Variable max_pool3d(const Operand& x, const PoolOptions<3>& options) {
  return max_pool(x, options);
}
[[nodiscard]] inline Variable avg_pool1d(const Operand& x, const PoolOptions<1>& options,
                                         bool count_include_pad = true) {
  return avg_pool(x, options, count_include_pad);
}
[[nodiscard]] inline Variable avg_pool3d(const Operand& x, const PoolOptions<3>& options,
                                         bool count_include_pad = true,
                                         std::int64_t divisor_override = 0) {
  return avg_pool(x, options, count_include_pad, divisor_override);
}

}  // namespace lockstep
