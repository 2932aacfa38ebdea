#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Losses over classes. x is [N,C, ...], the target i64[N, ...]; a "row" is one element of the
// target, in row-major order. x and its gradient are of one floating dtype; losses, their gradients
// and the numbers of rows are of that type too, f32 for one of 16 bits (sum_dtype).

namespace lockstep {

enum class Reduction : std::uint8_t { none, mean, sum };

/// PyTorch's options of nll_loss and cross_entropy. mean divides by the summed weights of the
/// targets that are not ignored.
struct LossOptions {
  Reduction reduction = Reduction::mean;
  Tensor class_weight;               ///< [C], f64 for an input in f64, else f32, or undefined
  std::int64_t ignore_index = -100;  ///< targets of this value count for nothing
  double label_smoothing = 0.0;      ///< cross_entropy only
};

/// Throws ShapeError, naming `operation` and printing the shapes, unless x, target and options fit.
void check_loss(const char* operation, const Tensor& x, const Tensor& target,
                const LossOptions& options);

/// The target to compute with; all elements are classes, below `classes`, or ignore_index: on the
/// host `target` itself, else InputError names the row. On a device wrong ones become ignore_index,
/// and the error comes when the host waits (index_check.hpp). `operation` is a static string.
[[nodiscard]] Tensor right_targets(const char* operation, const Tensor& target,
                                   std::int64_t classes, std::int64_t ignore_index);

/// The checks of x and the options alone.
void check_options(const char* operation, const Tensor& x, const LossOptions& options);

/// x[row, c] = -infinity for the columns c >= `first` of x [rows, columns].
void mask_columns(const Tensor& x, std::int64_t first);

/// losses[row] = -w[t] x[row, t], 0 for ignored rows. losses has the target's shape.
void nll_loss_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                      const Tensor& losses);

/// With p = log_softmax(x), e = label_smoothing: losses[row] = -(1 - e) w[t] p[t]
/// - (e / C) sum_c w[c] p[c], 0 for ignored rows. row_stats [2, rows] keeps each row's maximum and
/// the logarithm of sum(exp(x - maximum)) for the backward.
void cross_entropy_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                           const Tensor& losses, const Tensor& row_stats);

/// loss (one element) = sum of losses / divisor; divisor (one element) = summed weights of the kept
/// targets for Reduction::mean (0 if there are none: the loss is NaN), else 1.
void reduce_loss(const Tensor& losses, const Tensor& target, const LossOptions& options,
                 const Tensor& loss, const Tensor& divisor);

/// grad (+)= of_sum grad_loss / divisor, the gradient of reduce_loss's result from that of the sum
/// of losses, which is of grad's dtype, or f32 for one of 16 bits; grad is rounded once. What is 0
/// stays 0, where no row counts as well. grad_loss and divisor have one element, of of_sum's dtype.
void scale_loss_gradient(const Tensor& of_sum, const Tensor& grad_loss, const Tensor& divisor,
                         bool accumulate, const Tensor& grad);

/// grad_x (+)= the gradient, for grad_loss of one element, or of the target's shape with
/// Reduction::none (`divisor` is then undefined). Ignored rows get exactly 0.
void nll_loss_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& target,
                       const LossOptions& options, bool accumulate, const Tensor& grad_x);
void cross_entropy_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                            const Tensor& row_stats, const Tensor& target,
                            const LossOptions& options, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
