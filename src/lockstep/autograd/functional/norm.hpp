#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// (x - mean) / sqrt(var + eps) * weight + bias over the last weight.dims() dimensions, var biased
/// (Ba et al. 2016, arXiv:1607.06450). weight and bias have the shape of those dimensions; bias may
/// be undefined.
[[nodiscard]] Variable layer_norm(const Operand& x, const Operand& weight, const Operand& bias,
                                  double eps = 1e-5);

/// x / sqrt(mean(x^2) + eps) * weight over the last weight.dims() dimensions (Zhang and Sennrich
/// 2019, arXiv:1910.07467).
[[nodiscard]] Variable rms_norm(const Operand& x, const Operand& weight, double eps = 1e-6);

/// The same over each of `num_groups` groups of a sample's channels, x[N,C, ...], with weight[C]
/// and bias[C], which may be undefined (Wu, He 2018, arXiv:1803.08494). Throws ShapeError unless
/// the groups divide C.
[[nodiscard]] Variable group_norm(const Operand& x, std::int64_t num_groups,
                                  const Operand& weight = {}, const Operand& bias = {},
                                  double eps = 1e-5);

/// The same over each channel of each sample, x[N,C, ...] (Ulyanov et al. 2016, arXiv:1607.08022).
/// Throws ShapeError where a channel has a single value.
[[nodiscard]] Variable instance_norm(const Operand& x, const Operand& weight = {},
                                     const Operand& bias = {}, double eps = 1e-5);

/// x / (k + alpha / size s)^beta, s the sum of squares over `size` neighbouring channels, x[N,C,
/// ...] (Krizhevsky et al. 2012; the division by size is PyTorch's).
[[nodiscard]] Variable local_response_norm(const Operand& x, std::int64_t size, double alpha = 1e-4,
                                           double beta = 0.75, double k = 1.0);

/// Ranks whose samples are one batch to batch_norm. Every rank makes the same calls in the same
/// order, on tensors of equal shapes.
class StatisticsExchange {
 public:
  StatisticsExchange() = default;
  virtual ~StatisticsExchange() = default;
  StatisticsExchange(const StatisticsExchange&) = delete;
  StatisticsExchange& operator=(const StatisticsExchange&) = delete;

  /// Every rank's mine[n], in rank order: [ranks, n].
  [[nodiscard]] virtual Tensor gather(const Tensor& mine) const = 0;
  /// Replaces `t` by its sum over the ranks, the same bits on each.
  virtual void sum(const Tensor& t) const = 0;
};

/// What batch_norm keeps beside its parameters: [C] each, of x's dtype. Both running statistics
/// may be undefined in training: none are kept.
struct BatchNormStatistics {
  Tensor running_mean, running_var;
  /// Null: in training the batch is x. Else it is the x of all ranks, of which each may have any
  /// number of samples, also none. Forward in training is then collective over them, and so is
  /// backward if x needs a gradient, which is that of the sum of all ranks' losses; the gradients
  /// of weight and bias are this rank's parts of it.
  std::shared_ptr<const StatisticsExchange> exchange;
};

/// (x - mean) / sqrt(var + eps) * weight + bias for each channel of x[N,C, ...] (Ioffe and Szegedy
/// 2015, arXiv:1502.03167). In training mean and biased var are the batch's, and the running
/// statistics become (1 - momentum) old + momentum new, with the unbiased variance; else they are
/// used. An undefined weight is ones, an undefined bias zeros. Throws ShapeError in training if a
/// channel has a single value, in evaluation if there are no running statistics. `residual` (like
/// x, may be undefined) is added to the result, which then goes through relu if wanted: in the same
/// pass, as networks with shortcuts do it (He et al. 2016, arXiv:1512.03385). x and the residual
/// may each be in channel blocks (tensor/kernels/conv/channel_blocks.hpp); the result is as x.
[[nodiscard]] Variable batch_norm(const Operand& x, const Operand& weight, const Operand& bias,
                                  const BatchNormStatistics& statistics, bool training,
                                  double momentum = 0.1, double eps = 1e-5,
                                  const Operand& residual = {}, bool relu = false);

}  // namespace lockstep
