#pragma once
#include <lockstep/tensor/kernels/conv/conv2d_methods.hpp>

// The one door to convolutions of images and of volumes. They are tasks of the host, by the method
// that dtype and shape call for: at once for tensors of the host, late on a simulated device
// (host_task.hpp). For a GPU's tensors the vendor's library computes them (conv_device.hpp).
// `problem` is that of the tensors. f32 or f64, and for a GPU bf16 or f16 (a gradient may be f32
// beside them). Throws ShapeError as host_task() does.

namespace lockstep::detail {

/// "conv2d" or "conv3d".
[[nodiscard]] const char* name_of(const Conv2dProblem& problem) noexcept;

void run_forward(const Conv2dProblem& problem, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& y);
void run_backward_input(const Conv2dProblem& problem, const Tensor& grad_y, const Tensor& weight,
                        bool accumulate, const Tensor& grad_x);
void run_backward_weight(const Conv2dProblem& problem, const Tensor& grad_y, const Tensor& x,
                         bool accumulate, const Tensor& grad_weight);

}  // namespace lockstep::detail
