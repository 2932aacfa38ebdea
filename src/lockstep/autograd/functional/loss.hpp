#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/loss.hpp>

namespace lockstep {

/// Negative log-likelihood of target i64[N, ...] under log-probabilities x[N,C, ...].
[[nodiscard]] Variable nll_loss(const Variable& x, const Tensor& target,
                                const LossOptions& options = {});

/// nll_loss(log_softmax(x, 1), target) in one pass, with label smoothing.
[[nodiscard]] Variable cross_entropy(const Variable& x, const Tensor& target,
                                     const LossOptions& options = {});

/// cross_entropy(linear(x, weight), target) for x[..., in], weight[classes, in] and target
/// i64[...], without ever holding all logits: they are computed a chunk of rows at a time, in
/// backward once more. Memory beside inputs and gradients: two numbers a row, and one chunk.
[[nodiscard]] Variable linear_cross_entropy(const Variable& x, const Variable& weight,
                                            const Tensor& target, const LossOptions& options = {});

/// (x - target)^2, its mean or sum; the target has x's shape and dtype.
[[nodiscard]] Variable mse_loss(const Variable& x, const Tensor& target,
                                Reduction reduction = Reduction::mean);

/// -(t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))) for targets t in [0, 1] of x's shape and
/// dtype, computed as max(x, 0) - x t + log(1 + exp(-|x|)).
[[nodiscard]] Variable binary_cross_entropy_with_logits(const Variable& x, const Tensor& target,
                                                        Reduction reduction = Reduction::mean);

}  // namespace lockstep
