#pragma once
#include <cstdint>

#include <lockstep/tensor/kernels/conv/conv2d_methods.hpp>
#include <lockstep/tensor/math/device_math.hpp>

// Convolutions by the libraries of a GPU (math/device_math.hpp).

namespace lockstep::detail {

/// One pass of `samples` of the problem's samples, as libraries take it: `problem` takes all
/// windows of x. Throws ShapeError if a number is not below 2^31.
[[nodiscard]] math::Convolution convolution_of(const Conv2dProblem& problem,
                                               math::ConvolutionPass pass, DType dtype,
                                               std::int64_t samples);

/// The same of tensors that all have their channels last.
[[nodiscard]] math::Convolution with_channels_last(math::Convolution convolution);

/// How many samples go into one call, so that x and y have fewer than 2^31 elements each: one at
/// least.
[[nodiscard]] std::int64_t samples_a_call(const Conv2dProblem& problem);

// As run_forward and its like (conv_task.hpp); y may leave out windows of x, which takes a copy of
// y with them. Operands of f32 are rounded to product_precision(). Those of 16 bits are multiplied
// as such, or in f32 where the library has no algorithm for them. Their result is of their type, or
// f32: then rounded to their type and converted, as libraries write no other.
// Where x or y is in channel blocks, the library takes all of 16 bits with channels last, for which
// those that are not so are copied; what it lacks so, and f32, is computed on plain copies. Such a
// copy of a gradient is rounded before it is added.

void forward_on_device(math::DeviceMath& math, const Conv2dProblem& problem, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, const Tensor& y);
void backward_input_on_device(math::DeviceMath& math, const Conv2dProblem& problem,
                              const Tensor& grad_y, const Tensor& weight, bool accumulate,
                              const Tensor& grad_x);
/// Parts of `together` samples, samples_a_call() at most, are added in f32.
void backward_weight_on_device(math::DeviceMath& math, const Conv2dProblem& problem,
                               const Tensor& grad_y, const Tensor& x, bool accumulate,
                               const Tensor& grad_weight, std::int64_t together);

}  // namespace lockstep::detail
