#pragma once
// layer_norm and rms_norm on a GPU or its stand-in: a team a row for y and grad_x; for the
// parameters' gradients a thread a column of a block of rows, then sums of blocks. No atomics: the
// same bits every time. Private to norm.cpp, which chooses by device.
#include <lockstep/tensor/kernels/norm/norm.hpp>

namespace lockstep::detail {

/// As of layer_norm_forward and, with an undefined mean, rms_norm_forward, x and y [rows, width].
void norm_device_forward(const char* operation, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                         const Tensor& inverse);

/// x and grad_y [rows, width], weight [width], mean (undefined for rms_norm) and inverse [rows].
struct NormRows {
  Tensor grad_y, x, weight, mean, inverse;
};

/// As of layer_norm_backward and rms_norm_backward, gradients.x of x's shape.
void norm_device_backward(const char* operation, const NormRows& rows,
                          const NormGradients& gradients);

}  // namespace lockstep::detail
