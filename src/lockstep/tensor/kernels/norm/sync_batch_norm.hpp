#pragma once
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>

// batch_norm of a batch distributed over several ranks: each rank computes the statistics of its
// own samples, the statistics of all ranks are combined, and batch_norm_forward takes them in place
// of running ones. Backward works the same way: batch_norm_backward, with constant statistics and
// without x, leaves the sums over a rank's own samples in the gradients of bias and weight; this
// file computes the rest.

namespace lockstep {

/// The statistics of x, as of BatchNormInputs, into `part`, f64[1 + 2 C]: how many values a channel
/// has, the channels' means, their biased variances. Zeros if there are no values.
void batch_norm_statistics(const Tensor& x, const Tensor& part);

/// Joins `parts`, f64[ranks, 1 + 2 C], in rank order: mean and biased variance of all values into
/// `mean` and `variance`, their number a channel into `count`, f64[1]. Updates the running
/// statistics as batch_norm_forward does, but not from fewer than two values; without any
/// values, mean and variance become the running statistics. All [C] are of one dtype.
void join_batch_norm_statistics(const Tensor& parts, double momentum, const Tensor& running_mean,
                                const Tensor& running_var, const Tensor& mean,
                                const Tensor& variance, const Tensor& count);

/// The gradient of x into `grad_x`, from sums[2, C] over all ranks: the gradients of bias and
/// weight. `count` is the result of join_batch_norm_statistics; the rest is as for
/// batch_norm_backward.
void sync_batch_norm_backward(const BatchNormInputs& inputs, const BatchNormSaved& saved,
                              const Tensor& y, const Tensor& grad_y, const Tensor& sums,
                              const Tensor& count, const Tensor& grad_x, bool accumulate);

}  // namespace lockstep
