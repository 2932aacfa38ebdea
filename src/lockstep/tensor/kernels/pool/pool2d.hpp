#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Windows over images with the same extents along height and width.
struct SquareWindow {
  std::int64_t kernel, stride, padding = 0;
};

/// [N,C,OH,OW] for x[N,C,H,W], OH = floor((H + 2 padding - kernel) / stride) + 1. Throws
/// ShapeError, printing shape and window, if x has not four dimensions, H or W is 0, the window
/// does not fit, or padding is above half the kernel.
[[nodiscard]] Shape max_pool2d_shape(const Shape& x, const SquareWindow& options);

/// y = largest element of each window; indices i32 = its h * W + w in the unpadded plane. Padding
/// counts as -inf; among equals the first in row-major window order wins; a NaN wins over all.
void max_pool2d_forward(const Tensor& x, const SquareWindow& options, const Tensor& y,
                        const Tensor& indices);

/// grad_x (+)= the gradients of the windows that chose each element, in row-major window order.
void max_pool2d_backward(const Tensor& grad_y, const Tensor& indices, const SquareWindow& options,
                         bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
