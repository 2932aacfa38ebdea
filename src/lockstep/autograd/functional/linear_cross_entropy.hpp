#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep {

/// cross_entropy(linear(x, weight), target) for x[..., in], weight[classes, in] and target
/// i64[...], without ever holding all logits: they are computed a chunk of rows at a time, in
/// backward once more. Memory beside inputs and gradients: two numbers a row, and one chunk. For x
/// and weight of one 16-bit type, which products take as they are, these are f32 (the chunk, on a
/// GPU, of 16 bits), and so is a copy of the weight's gradient if that has 16 bits.
[[nodiscard]] Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                                            const Tensor& target, const LossOptions& options = {});

}  // namespace lockstep
