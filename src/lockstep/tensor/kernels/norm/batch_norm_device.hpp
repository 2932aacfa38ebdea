#pragma once
// batch_norm on a GPU or its stand-in, in either layout: sums of parts of each channel, one kernel
// that combines them, one that goes through the elements. No atomics: the same bits every time.
// batch_norm.cpp and sync_batch_norm.cpp, whose contracts these are, choose by device. Private to
// these .cpp files.
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>

namespace lockstep::detail {

void batch_norm_device_forward(const BatchNormInputs& inputs, bool training, double momentum,
                               double eps, const Tensor& y, const BatchNormSaved& saved);
void batch_norm_device_backward(const BatchNormInputs& inputs, bool training,
                                const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                                const BatchNormGradients& gradients);

void batch_norm_device_statistics(const Tensor& x, const Tensor& part);
void sync_batch_norm_device_backward(const BatchNormInputs& inputs, const BatchNormSaved& saved,
                                     const Tensor& y, const Tensor& grad_y, const Tensor& sums,
                                     const Tensor& count, const Tensor& grad_x, bool accumulate);

}  // namespace lockstep::detail
