#pragma once
#include <optional>

#include <lockstep/tensor/kernels/pool/pool_nd.hpp>
#include <lockstep/tensor/tensor.hpp>

// Pools of images with channels last (kernels/conv/channel_blocks.hpp) on a GPU or its stand-in, of
// f32 and of 16 bits: sums are f32. x is [N,1,H,W,C], y and gradients likewise. Windows have no
// dilation and at least one element of x each.

namespace lockstep {

/// Windows along H and W, or, without a value, the parts of an adaptive pool.
using ImageWindows = std::optional<PoolWindow>;

/// Whether windows are small enough for max pools, which keep 8 bits a window: of 256 elements at
/// most.
[[nodiscard]] bool fits_channels_last_max_pool(const ImageWindows& windows, const Tensor& x,
                                               const Shape& pooled);

/// y = the largest element of each window; places u8, in y's order, = which of the window's
/// elements within x, in row-major order. The first of equals; a NaN wins over all.
void channels_last_max_pool_forward(const Tensor& x, const ImageWindows& windows, const Tensor& y,
                                    const Tensor& places);
/// grad_x (+)= the gradients of the windows that chose each element, in row-major window order.
void channels_last_max_pool_backward(const Tensor& grad_y, const Tensor& places,
                                     const ImageWindows& windows, bool accumulate,
                                     const Tensor& grad_x);
/// y = the elements of x at the places that a max pool has chosen.
void channels_last_max_pool_take(const Tensor& x, const Tensor& places, const ImageWindows& windows,
                                 const Tensor& y);

/// As avg_pool_forward and its backward, or, without a value, as those of adaptive_avg_pool.
void channels_last_avg_pool_forward(const Tensor& x, const std::optional<AveragePool>& pool,
                                    const Tensor& y);
void channels_last_avg_pool_backward(const Tensor& grad_y, const std::optional<AveragePool>& pool,
                                     bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
