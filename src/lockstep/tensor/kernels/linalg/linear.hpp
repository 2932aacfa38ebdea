#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// [..., out] for x[..., in], weight[out, in], bias[out] (or undefined). Throws ShapeError,
/// printing the shapes, if they or the dtypes do not fit.
[[nodiscard]] Shape linear_shape(const Tensor& x, const Tensor& weight, const Tensor& bias);

// The operands of the products are f32 or f64, as the result is, or both bf16 or both f16: then the
// result is of that type or f32, as the bias of the forward is. Each result is rounded once.

/// y[..., out] = x[..., in] weight[out, in]^T + bias[out] (bias may be undefined). Here y may have
/// further columns, which are not touched, and grad_y in linear_backward_input and
/// linear_backward_weight, where they count for nothing.
void linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y);

// Parts of linear(gelu(linear(x))), by tanh, in one product each. All tensors are of one 16-bit
// type. They return false and do nothing where it takes more: math::product_with_gelu says where.

/// pre[..., out] = x weight^T + bias, and y = gelu(pre) of the sums before they are rounded.
[[nodiscard]] bool linear_gelu_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                       const Tensor& pre, const Tensor& y);
/// grad_pre = grad_y weight times the slope of gelu at pre.
[[nodiscard]] bool gelu_linear_backward_input(const Tensor& grad_y, const Tensor& weight,
                                              const Tensor& pre, const Tensor& grad_pre);

/// grad_x (+)= grad_y weight.
void linear_backward_input(const Tensor& grad_y, const Tensor& weight, bool accumulate,
                           const Tensor& grad_x);

/// grad_weight (+)= grad_y^T x.
void linear_backward_weight(const Tensor& grad_y, const Tensor& x, bool accumulate,
                            const Tensor& grad_weight);

/// The same and grad_bias = the sum of grad_y's rows, in one product. Returns false and does
/// nothing where it takes two: math::product_with_row_sums says where.
[[nodiscard]] bool linear_backward_weight_and_bias(const Tensor& grad_y, const Tensor& x,
                                                   bool accumulate, const Tensor& grad_weight,
                                                   const Tensor& grad_bias);

/// grad_bias (+)= the sum of grad_y's rows, of f32 for 16 bits, in which grad_bias may be, too.
void linear_backward_bias(const Tensor& grad_y, bool accumulate, const Tensor& grad_bias);

}  // namespace lockstep
