#pragma once
// cross_entropy of rows side by side on a GPU or its stand-in, by teams that read packs. Private to
// cross_entropy.cpp, which chooses by device.
#include <lockstep/tensor/kernels/loss/vocabulary_slab.hpp>

namespace lockstep::detail {

/// As of cross_entropy_forward, x [rows, classes].
void cross_entropy_device_forward(const Tensor& x, const Tensor& target, const LossOptions& options,
                                  const Tensor& losses, const Tensor& row_stats);

/// As of cross_entropy_slab_backward, x and grad_x [rows, slab.count].
void cross_entropy_device_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                                   const Tensor& stats, const Tensor& target, const ClassSlab& slab,
                                   const LossOptions& options, bool accumulate,
                                   const Tensor& grad_x);

}  // namespace lockstep::detail
