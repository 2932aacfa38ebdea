#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/tensor/kernels/activation.hpp>
#include <lockstep/tensor/kernels/dropout.hpp>

namespace lockstep {

[[nodiscard]] Variable relu(const Variable& x);

/// x (1 + erf(x / sqrt 2)) / 2, or its approximation by tanh.
[[nodiscard]] Variable gelu(const Variable& x, Gelu approximation = Gelu::exact);

/// x sigmoid(x).
[[nodiscard]] Variable silu(const Variable& x);

/// 1 / (1 + exp(-x)).
[[nodiscard]] Variable sigmoid(const Variable& x);

[[nodiscard]] Variable tanh(const Variable& x);

/// x[N, ...] with each element kept with probability 1 - p and scaled by 1 / (1 - p), else zero.
/// The choice depends on `key` and the element's global position only, not on ranks.
[[nodiscard]] Variable dropout(const Variable& x, double p, const RandomKey& key);

/// The same for whole channels of x[N,C,H,W].
[[nodiscard]] Variable dropout2d(const Variable& x, double p, const RandomKey& key);

/// exp(x) / sum(exp(x)) along `dim`; the largest element is subtracted first.
[[nodiscard]] Variable softmax(const Variable& x, int dim = -1);

/// x - log(sum(exp(x))) along `dim`.
[[nodiscard]] Variable log_softmax(const Variable& x, int dim = -1);

}  // namespace lockstep
