#pragma once
#include <cstdint>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep {

/// (x - target)^2, its mean or sum; the target has x's shape and dtype.
[[nodiscard]] Variable mse_loss(const Operand& x, const Tensor& target,
                                Reduction reduction = Reduction::mean);

/// |x - target|.
[[nodiscard]] Variable l1_loss(const Operand& x, const Tensor& target,
                               Reduction reduction = Reduction::mean);

/// With d = |x - target|: d^2 / (2 beta) where d < beta, else d - beta / 2 (Girshick 2015,
/// arXiv:1504.08083). Throws InputError unless beta >= 0.
[[nodiscard]] Variable smooth_l1_loss(const Operand& x, const Tensor& target,
                                      Reduction reduction = Reduction::mean, double beta = 1.0);

/// d^2 / 2 where d <= delta, else delta (d - delta / 2) (Huber 1964). Throws InputError unless
/// delta > 0.
[[nodiscard]] Variable huber_loss(const Operand& x, const Tensor& target,
                                  Reduction reduction = Reduction::mean, double delta = 1.0);

/// batchmean: the sum divided by the extent of dimension 0, the mathematical definition of the
/// divergence.
enum class KlDivReduction : std::uint8_t { none, mean, sum, batchmean };

/// target (log target - x) for log-probabilities x; with log_target the target is logarithms too.
[[nodiscard]] Variable kl_div(const Operand& x, const Tensor& target,
                              KlDivReduction reduction = KlDivReduction::mean,
                              bool log_target = false);

/// Negative log-likelihood of target under Gaussians of means x and variances var, which count as
/// at least eps: (log var + (x - target)^2 / var) / 2; full: + log(2 pi) / 2. var is like x, or one
/// for each last dimension, which is then 1 or absent. Throws InputError unless eps > 0, and, on
/// the host, for a negative variance.
[[nodiscard]] Variable gaussian_nll_loss(const Operand& x, const Tensor& target, const Operand& var,
                                         bool full = false, double eps = 1e-6,
                                         Reduction reduction = Reduction::mean);

/// Negative log-likelihood of counts under Poisson distributions of rate exp(x): exp(x) - target x;
/// of rate x unless log_input: x - target log(x + eps). full: + Stirling's approximation of
/// log(target!) where target > 1.
[[nodiscard]] Variable poisson_nll_loss(const Operand& x, const Tensor& target,
                                        bool log_input = true, bool full = false, double eps = 1e-8,
                                        Reduction reduction = Reduction::mean);

/// torchvision's sigmoid_focal_loss: binary_cross_entropy_with_logits times (1 - p)^gamma, p the
/// probability of what the target says, times alpha where it says 1 and 1 - alpha where 0 (a
/// negative alpha: neither) (Lin et al. 2017, arXiv:1708.02002). Throws InputError unless
/// gamma >= 0.
[[nodiscard]] Variable sigmoid_focal_loss(const Operand& x, const Tensor& target,
                                          double alpha = 0.25, double gamma = 2.0,
                                          Reduction reduction = Reduction::none);

/// -(t log(sigmoid(x)) + (1 - t) log(1 - sigmoid(x))) for targets t in [0, 1] of x's shape and
/// dtype, computed as max(x, 0) - x t + log(1 + exp(-|x|)). Each loss is multiplied by `weight`,
/// and its term with t by `pos_weight`, if given: of x's dtype, broadcast to its shape.
[[nodiscard]] Variable binary_cross_entropy_with_logits(const Operand& x, const Tensor& target,
                                                        Reduction reduction = Reduction::mean,
                                                        const Tensor& weight = {},
                                                        const Tensor& pos_weight = {});

/// -(t log(x) + (1 - t) log(1 - x)) for probabilities x and targets t, both in [0, 1], each loss
/// multiplied by `weight`; logarithms count as -100 at least. Of a network's outputs
/// binary_cross_entropy_with_logits keeps more digits. Throws InputError for an x that is
/// no probability: of a device as right_indices does (tensor/kernels/data/index_check.hpp).
[[nodiscard]] Variable binary_cross_entropy(const Operand& x, const Tensor& target,
                                            Reduction reduction = Reduction::mean,
                                            const Tensor& weight = {});

}  // namespace lockstep
