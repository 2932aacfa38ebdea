#pragma once
// softmax and log_softmax of rows side by side on a GPU or its stand-in, by teams that read packs.
// Private to softmax.cpp, which chooses by device. x and its gradient as of softmax.hpp, [rows,
// width].
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::detail {

void softmax_device_forward(const Tensor& x, const Tensor& y);
void softmax_device_backward(const Tensor& grad_y, const Tensor& y, bool accumulate,
                             const Tensor& grad_x);
void log_softmax_device_forward(const Tensor& x, const Tensor& y);
void log_softmax_device_backward(const Tensor& grad_y, const Tensor& x_or_y, bool accumulate,
                                 const Tensor& grad_x);

}  // namespace lockstep::detail
