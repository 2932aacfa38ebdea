#pragma once
// batch_norm of images in channel blocks (channel_blocks.hpp), f32 on the host. batch_norm.cpp and
// sync_batch_norm.cpp, whose contracts these are, choose by layout. Private to these .cpp files.
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>

namespace lockstep::detail {

void batch_norm_blocks_forward(const BatchNormInputs& inputs, bool training, double momentum,
                               double eps, const Tensor& y, const BatchNormSaved& saved);
void batch_norm_blocks_backward(const BatchNormInputs& inputs, bool training,
                                const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                                const BatchNormGradients& gradients);

void batch_norm_blocks_statistics(const Tensor& x, const Tensor& part);
void sync_batch_norm_blocks_backward(const BatchNormInputs& inputs, const BatchNormSaved& saved,
                                     const Tensor& y, const Tensor& grad_y, const Tensor& sums,
                                     double count, const Tensor& grad_x, bool accumulate);

}  // namespace lockstep::detail
