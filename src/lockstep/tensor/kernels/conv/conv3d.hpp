#pragma once
#include <lockstep/tensor/kernels/conv/conv_options.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

// As conv2d (conv2d.hpp), of x[N,C,D,H,W] with weight[O,C/groups,kd,kh,kw], in plain layout.

[[nodiscard]] Shape conv3d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Conv3dOptions& options);
void conv3d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv3dOptions& options, const Tensor& y);
void conv3d_backward_input(const Tensor& grad_y, const Tensor& weight, const Conv3dOptions& options,
                           bool accumulate, const Tensor& grad_x);
void conv3d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv3dOptions& options,
                            bool accumulate, const Tensor& grad_weight);

/// y[N,C, ...], or on a GPU an image in channel blocks, += bias[C], which has y's dtype.
void add_channel_bias(const Tensor& bias, const Tensor& y);

}  // namespace lockstep
