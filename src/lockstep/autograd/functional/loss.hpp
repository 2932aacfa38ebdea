#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep {

/// Negative log-likelihood of target i64[N, ...], or i32, under log-probabilities x[N,C, ...].
[[nodiscard]] Variable nll_loss(const Variable& x, const Tensor& target,
                                const LossOptions& options = {});

/// nll_loss(log_softmax(x, 1), target) in one pass, with label smoothing. A floating target of x's
/// shape holds each class's probability instead: -sum(w t log_softmax(x, 1)) over the classes,
/// averaged over the samples; ignore_index must not be given.
[[nodiscard]] Variable cross_entropy(const Variable& x, const Tensor& target,
                                     const LossOptions& options = {});

}  // namespace lockstep
