#pragma once
// batch_norm of images in channel blocks (channel_blocks.hpp), f32 on the host. batch_norm.cpp,
// whose contract this is, chooses by layout. Private to the two .cpp files.
#include <lockstep/tensor/kernels/batch_norm.hpp>

namespace lockstep::detail {

void batch_norm_blocks_forward(const BatchNormInputs& inputs, bool training, double momentum,
                               double eps, const Tensor& y, const BatchNormSaved& saved);
void batch_norm_blocks_backward(const BatchNormInputs& inputs, bool training,
                                const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                                const BatchNormGradients& gradients);

}  // namespace lockstep::detail
