#pragma once
#include <lockstep/tensor/tensor.hpp>

// Normalisation of rows: x[..., D] with D the dimensions of weight. x, y and their gradients are of
// one floating dtype; parameters, their gradients and the numbers of rows are of that type too, f32
// for one of 16 bits.

namespace lockstep {

/// Throws ShapeError, printing the shapes, unless x ends in weight's dimensions (one at least),
/// bias is undefined or has weight's shape, and the dtypes fit. `operation` is for the message.
void check_norm(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias);

/// The shape of one number a row: x's leading dimensions as one.
[[nodiscard]] Shape norm_rows(const Tensor& x, const Tensor& weight);

/// y = (x - mean) inverse_std weight + bias, inverse_std = 1 / sqrt(var + eps), var the biased
/// variance of the row, from the differences to its mean (Ba et al. 2016, arXiv:1607.06450).
/// bias may be undefined; mean and inverse_std [rows] are made for the backward.
void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                        const Tensor& y, const Tensor& mean, const Tensor& inverse_std);

/// y = x inverse_rms weight, inverse_rms = 1 / sqrt(mean(x^2) + eps) (Zhang and Sennrich 2019,
/// arXiv:1910.07467), which [rows] is made for the backward.
void rms_norm_forward(const Tensor& x, const Tensor& weight, double eps, const Tensor& y,
                      const Tensor& inverse_rms);

/// The outputs for gradients; those left undefined are not computed.
struct NormGradients {
  Tensor x, weight, bias;
  bool accumulate_x = false, accumulate_weight = false, accumulate_bias = false;
};

/// With h = (x - mean) inverse_std and g = grad_y weight:
///   grad_x (+)= inverse_std (g - mean(g) - h mean(g h)),
///   grad_weight (+)= sum over rows of grad_y h, grad_bias (+)= sum over rows of grad_y.
void layer_norm_backward(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& inverse_std,
                         const NormGradients& gradients);

/// With h = x inverse_rms and g = grad_y weight: grad_x (+)= inverse_rms (g - h mean(g h)),
/// grad_weight (+)= sum over rows of grad_y h.
void rms_norm_backward(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                       const Tensor& inverse_rms, const NormGradients& gradients);

}  // namespace lockstep
