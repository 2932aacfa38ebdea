#pragma once
#include <memory>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// The ranks whose samples form one batch for batch_norm. Every rank makes the same calls in the
/// same order, on tensors of equal shapes.
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

/// The state of batch_norm besides its parameters: [C] each, of x's dtype, or f32 for one of 16
/// bits. Both running statistics may be undefined in training: none are kept.
struct BatchNormStatistics {
  Tensor running_mean, running_var;
  /// Null: in training the batch is x. Otherwise the batch is the x of all ranks, each with any
  /// number of samples, including none. Forward in training is then collective over the group, and
  /// so is backward if x needs a gradient: it is the gradient of the sum of all ranks' losses. The
  /// gradients of weight and bias are this rank's parts of it.
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
[[nodiscard]] Variable batch_norm(const Variable& x, const Operand& weight, const Operand& bias,
                                  const BatchNormStatistics& statistics, bool training,
                                  double momentum = 0.1, double eps = 1e-5,
                                  const Variable& residual = {}, bool relu = false);

}  // namespace lockstep
