#pragma once
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/pool/pool2d.hpp>
#include <lockstep/tensor/tensor.hpp>

// y = relu(max_pool2d(channel_scale * (conv2d(x, weight) + bias))) on the host, one sample at a
// time while it is in cache; the convolution's output never reaches memory. Forward arranges the
// sample so that a pooling window's elements are in different registers; backward visits only the
// positive maxima of windows (at most 1 in k*k of the convolution's gradient).

namespace lockstep {

/// The operands of one fused layer. f32, on the host, contiguous.
struct Conv2dMaxPool2dInputs {
  Tensor x;              ///< [N,C,H,W]
  Tensor weight;         ///< [O,C,kh,kw]
  Tensor bias;           ///< [O], or undefined
  Tensor channel_scale;  ///< [N,O] with elements >= 0 (dropout2d's factors), or undefined
  Conv2dOptions conv;
  SquareWindow pool{};
};

/// The outputs for gradients; those of undefined tensors are not computed. `accumulate`: add to the
/// present values, else overwrite.
struct Conv2dMaxPool2dGradients {
  Tensor x, weight, bias;
  bool accumulate_x = false, accumulate_weight = false, accumulate_bias = false;
};

/// Whether the two functions below support such a layer: f32; convolution with stride 1, dilation
/// 1, one group and any kernel and padding; pooling with stride = kernel <= 15 and no padding; at
/// least one pooled output; and one sample's working set within a core's private cache.
[[nodiscard]] bool conv2d_max_pool2d_supported(const Shape& x, const Shape& weight,
                                               const Conv2dOptions& conv, const SquareWindow& pool,
                                               DType dtype);

/// The shape of y and code: [N,O,floor(OH/k),floor(OW/k)].
[[nodiscard]] Shape conv2d_max_pool2d_shape(const Shape& x, const Shape& weight,
                                            const Conv2dOptions& conv, const SquareWindow& pool);

/// Writes y (f32) and code (u8: row-major index inside its window of the element that y comes from,
/// the first among equals; undefined: not wanted), both [N,O,PH,PW]. NaN anywhere in a window gives
/// NaN. A channel of scale 0 is not computed if its inputs are finite: its y is 0.
/// Throws ShapeError if shapes, dtypes or options do not fit.
void conv2d_max_pool2d_relu_forward(const Conv2dMaxPool2dInputs& inputs, const Tensor& y,
                                    const Tensor& code);

/// Writes the gradients for grad_y [N,O,PH,PW], from forward's y and code. The gradient is 0 where
/// y is 0. Sums in a fixed order: the same bits every time.
void conv2d_max_pool2d_relu_backward(const Conv2dMaxPool2dInputs& inputs, const Tensor& y,
                                     const Tensor& code, const Tensor& grad_y,
                                     const Conv2dMaxPool2dGradients& gradients);

}  // namespace lockstep
