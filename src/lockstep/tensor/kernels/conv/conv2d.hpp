#pragma once
#include <lockstep/tensor/kernels/conv/conv_options.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

// x, y and their gradients may each be in channel blocks (channel_blocks.hpp). Beside one that is,
// so may on a GPU be the weight that forward and backward_input read.

/// [N,O,OH,OW] for x[N,C,H,W], weight[O,C/groups,kh,kw], bias[O] (or undefined),
/// OH = floor((H + 2 padding - dilation (kh - 1) - 1) / stride) + 1. Throws ShapeError, printing
/// the shapes and options, if they or the dtypes do not fit.
[[nodiscard]] Shape conv2d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Conv2dOptions& options);

/// y = cross-correlation of x with weight, plus bias if defined. f32 or f64, on any device; also
/// bf16 or f16 where a GPU's library computes (math/device_math.hpp), with sums in f32. y and the
/// gradients below may then be f32 too.
void conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Tensor& y);

/// grad_x (+)= the gradient with respect to x.
void conv2d_backward_input(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                           bool accumulate, const Tensor& grad_x);

/// grad_weight (+)= the gradient with respect to weight.
void conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            bool accumulate, const Tensor& grad_weight);

/// grad_bias (+)= grad_y summed over samples and positions.
void conv2d_backward_bias(const Tensor& grad_y, bool accumulate, const Tensor& grad_bias);

}  // namespace lockstep
