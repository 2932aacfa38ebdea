#pragma once
#include <lockstep/tensor/tensor.hpp>

// Products of the last two dimensions, leading ones broadcast; an operand of one dimension is a row
// (a) or a column (b). On any device, of any floating type; results of 16-bit operands are of their
// type or f32 and rounded once (math/product.hpp). Transposed operands of the gradients are read as
// they lie in memory.

namespace lockstep {

/// The shape of matmul(a, b). Throws ShapeError, printing both, if they do not fit.
[[nodiscard]] Shape matmul_shape(const Tensor& a, const Tensor& b);

/// y = a b.
void matmul_forward(const Tensor& a, const Tensor& b, const Tensor& y);

/// grad_a (+)= grad_y b^T, summed over the dimensions in which a was repeated.
void matmul_backward_a(const Tensor& grad_y, const Tensor& b, bool accumulate,
                       const Tensor& grad_a);

/// grad_b (+)= a^T grad_y, summed over the dimensions in which b was repeated.
void matmul_backward_b(const Tensor& grad_y, const Tensor& a, bool accumulate,
                       const Tensor& grad_b);

}  // namespace lockstep
