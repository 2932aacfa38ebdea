#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/variable.hpp>

// A loss of logits linear(x, weight) that are never all in memory: linear_cross_entropy, and
// vocabulary_parallel_linear_cross_entropy, where each rank has some of the columns.

namespace lockstep::detail {

/// A loss of logits, a chunk of rows at a time. Its functions are collective if ranks share out the
/// columns.
class LogitsLoss {
 public:
  LogitsLoss() = default;
  virtual ~LogitsLoss() = default;
  LogitsLoss(const LogitsLoss&) = delete;
  LogitsLoss& operator=(const LogitsLoss&) = delete;

  /// Of the operation, for messages.
  [[nodiscard]] virtual const char* name() const noexcept = 0;
  /// Throws unless the products' operands x and weight fit the target and the options.
  virtual void expect_fit(const Tensor& x, const Tensor& weight, const Tensor& target) const = 0;
  /// Over all ranks.
  [[nodiscard]] virtual std::int64_t classes() const = 0;
  /// By which all ranks choose the same chunks.
  [[nodiscard]] virtual std::int64_t columns_of_a_rank() const = 0;
  /// Numbers that forward() leaves for backward().
  [[nodiscard]] virtual std::int64_t stats_a_row() const = 0;
  /// losses [rows] and stats [stats_a_row(), rows] of logits [rows, columns].
  virtual void forward(const Tensor& logits, const Tensor& target, const Tensor& losses,
                       const Tensor& stats) const = 0;
  /// The logits become their gradient, as cross_entropy_backward's.
  virtual void backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& logits,
                        const Tensor& stats, const Tensor& target) const = 0;
  [[nodiscard]] virtual bool has_second_derivatives() const noexcept = 0;
  /// The reduced loss as operations. Only if there are second derivatives.
  [[nodiscard]] virtual Variable of(const Variable& logits, const Tensor& target) const = 0;
};

/// `loss` of linear(x, weight) for target i64[...], reduced as `options` say; see
/// linear_cross_entropy.
[[nodiscard]] Variable linear_loss_in_chunks(const Variable& x, const Variable& weight,
                                             const Tensor& target, const LossOptions& options,
                                             LossGradients when,
                                             std::shared_ptr<const LogitsLoss> loss);

}  // namespace lockstep::detail
