#pragma once
#include <cstdint>

#include <lockstep/tensor/extents.hpp>
#include <lockstep/tensor/tensor.hpp>

// Pools with windows of any extents over x[planes, D, H, W]; f32 or f64, on any device. Images
// have D = 1, sequences H = 1 too.

namespace lockstep {

/// A window's extents along D, H, W.
struct PoolWindow {
  Extents<3> kernel = 1, stride = 1, padding = 0, dilation = 1;
};

/// y = the largest element of each window, padding as -inf; indices i32 = its place in the plane.
/// Among equals the first in row-major window order; a NaN wins over all.
void max_pool_forward(const Tensor& x, const PoolWindow& window, const Tensor& y,
                      const Tensor& indices);
/// grad_x (+)= the gradients of the windows that chose each element.
void max_pool_backward(const Tensor& grad_y, const Tensor& indices, const PoolWindow& window,
                       bool accumulate, const Tensor& grad_x);

/// y = the sum of each window over `divisor`, or, where it is 0, over the window's elements within
/// the padded plane (count_include_pad) or the real ones.
struct AveragePool {
  PoolWindow window;
  bool count_include_pad = true;
  std::int64_t divisor = 0;
};
void avg_pool_forward(const Tensor& x, const AveragePool& pool, const Tensor& y);
void avg_pool_backward(const Tensor& grad_y, const AveragePool& pool, bool accumulate,
                       const Tensor& grad_x);

/// Output i of m is of the elements [floor(i n / m), ceil((i + 1) n / m)) along each dimension.
void adaptive_max_pool_forward(const Tensor& x, const Tensor& y, const Tensor& indices);
void adaptive_max_pool_backward(const Tensor& grad_y, const Tensor& indices, bool accumulate,
                                const Tensor& grad_x);
void adaptive_avg_pool_forward(const Tensor& x, const Tensor& y);
void adaptive_avg_pool_backward(const Tensor& grad_y, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
