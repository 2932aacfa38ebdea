#pragma once
#include <cstdint>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep {

/// When linear_cross_entropy computes its gradients: in forward, from the chunk of logits that is
/// there, or in backward, from logits that are computed once more.
enum class LossGradients : std::uint8_t { in_forward, in_backward };

/// cross_entropy(linear(x, weight), target) for x[..., in], weight[classes, in] and target
/// i64[...] or i32, without ever holding all logits: they are computed a chunk of rows at a time.
///
/// Memory beside inputs, gradients and one chunk: with gradients in forward, those of x and the
/// weight, from forward to backward, in f32 (f64 for f64); else two numbers a row (four where ranks
/// share out the vocabulary). With
/// Reduction::none, with operands of fp16, whose gradients need the scaled loss, and where nothing
/// is recorded, they are not computed in forward. For many losses before the first backward, as in
/// a pipeline, choose in_backward.
///
/// For x and weight of one 16-bit type, which products take as they are, logits are f32 (on a GPU
/// of 16 bits), and each gradient is rounded once.
[[nodiscard]] Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                                            const Tensor& target, const LossOptions& options = {},
                                            LossGradients when = LossGradients::in_forward);

}  // namespace lockstep
