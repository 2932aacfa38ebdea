#pragma once
#include <array>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Triples are of depth, height, width.
struct Conv3dOptions {
  std::array<std::int64_t, 3> stride{1, 1, 1};
  std::array<std::int64_t, 3> padding{0, 0, 0};
  std::array<std::int64_t, 3> dilation{1, 1, 1};
  std::int64_t groups = 1;
};

// As conv2d (conv2d.hpp), of x[N,C,D,H,W] with weight[O,C/groups,kd,kh,kw], in plain layout.

[[nodiscard]] Shape conv3d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const Conv3dOptions& options);
void conv3d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv3dOptions& options, const Tensor& y);
void conv3d_backward_input(const Tensor& grad_y, const Tensor& weight, const Conv3dOptions& options,
                           bool accumulate, const Tensor& grad_x);
void conv3d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv3dOptions& options,
                            bool accumulate, const Tensor& grad_weight);

/// y[N,C, ...] += bias[C].
void add_channel_bias(const Tensor& bias, const Tensor& y);

}  // namespace lockstep
