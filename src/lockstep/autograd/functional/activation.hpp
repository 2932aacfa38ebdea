#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

namespace lockstep {

[[nodiscard]] Variable relu(const Variable& x);

/// x (1 + erf(x / sqrt 2)) / 2, or its approximation by tanh.
[[nodiscard]] Variable gelu(const Variable& x, Gelu approximation = Gelu::exact);

/// x sigmoid(x).
[[nodiscard]] Variable silu(const Variable& x);

/// 1 / (1 + exp(-x)).
[[nodiscard]] Variable sigmoid(const Variable& x);

[[nodiscard]] Variable tanh(const Variable& x);

/// x, or negative_slope x where x <= 0.
[[nodiscard]] Variable leaky_relu(const Variable& x, double negative_slope = 0.01);

/// x, or alpha (exp(x) - 1) where x <= 0 (Clevert et al. 2016, arXiv:1511.07289).
[[nodiscard]] Variable elu(const Variable& x, double alpha = 1.0);

/// x, or alpha (exp(x / alpha) - 1) where x <= 0 (Barron 2017, arXiv:1704.07483).
[[nodiscard]] Variable celu(const Variable& x, double alpha = 1.0);

/// elu with the two numbers of Klambauer et al. 2017 (arXiv:1706.02515).
[[nodiscard]] Variable selu(const Variable& x);

/// log(1 + exp(beta x)) / beta; x where beta x > threshold.
[[nodiscard]] Variable softplus(const Variable& x, double beta = 1.0, double threshold = 20.0);

/// x / (1 + |x|).
[[nodiscard]] Variable softsign(const Variable& x);

/// The nearest number in [min_val, max_val]. Throws InputError unless min_val < max_val.
[[nodiscard]] Variable hardtanh(const Variable& x, double min_val = -1.0, double max_val = 1.0);
/// hardtanh between 0 and 6.
[[nodiscard]] Variable relu6(const Variable& x);

/// relu6(x + 3) / 6.
[[nodiscard]] Variable hardsigmoid(const Variable& x);

/// x relu6(x + 3) / 6 (Howard et al. 2019, arXiv:1905.02244).
[[nodiscard]] Variable hardswish(const Variable& x);

/// x tanh(softplus(x)) (Misra 2019, arXiv:1908.08681).
[[nodiscard]] Variable mish(const Variable& x);

/// log(sigmoid(x)).
[[nodiscard]] Variable logsigmoid(const Variable& x);

/// x[N, ...] with each element kept with probability 1 - p and scaled by 1 / (1 - p), else zero.
/// The choice depends on `key` and the element's global position only, not on ranks.
[[nodiscard]] Variable dropout(const Variable& x, double p, const RandomKey& key);

/// The same for whole channels of x[N,C,H,W].
[[nodiscard]] Variable dropout2d(const Variable& x, double p, const RandomKey& key);
/// The same of x[N,C,L] and of x[N,C,D,H,W].
[[nodiscard]] Variable dropout1d(const Variable& x, double p, const RandomKey& key);
[[nodiscard]] Variable dropout3d(const Variable& x, double p, const RandomKey& key);

/// exp(x) / sum(exp(x)) along `dim`; the largest element is subtracted first.
[[nodiscard]] Variable softmax(const Variable& x, int dim = -1);

/// x - log(sum(exp(x))) along `dim`.
[[nodiscard]] Variable log_softmax(const Variable& x, int dim = -1);

}  // namespace lockstep
