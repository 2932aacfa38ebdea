#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Wu, He 2018 (arXiv:1803.08494); with as many groups as channels Ulyanov et al. 2016
// (arXiv:1607.08022). x, y and their gradients are of one floating dtype; all others are of that
// type too, f32 for one of 16 bits.

namespace lockstep {

/// y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c], where mean and biased var are those of a
/// sample's group of channels, x[N,C, ...], groups a divisor of C. weight and bias may be
/// undefined. mean[N, groups] and rstd[N, groups] = 1 / sqrt(var + eps) are kept for backward.
void group_norm_forward(const Tensor& x, std::int64_t groups, const Tensor& weight,
                        const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                        const Tensor& rstd);

/// sums[N,C] and products[N,C] = for each channel of each sample the sums of grad_y and of grad_y
/// times the normalised x: of them the gradients of bias and weight are sums over N.
void group_norm_sums(const Tensor& grad_y, const Tensor& x, std::int64_t groups, const Tensor& mean,
                     const Tensor& rstd, const Tensor& sums, const Tensor& products);

/// grad_x (+)= the gradient by x, given those sums.
void group_norm_backward(const Tensor& grad_y, const Tensor& x, std::int64_t groups,
                         const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                         const Tensor& sums, const Tensor& products, bool accumulate,
                         const Tensor& grad_x);

/// y = x / (k + alpha / size * s)^beta, s the sum of squares over the channels [c - size / 2,
/// c + (size - 1) / 2] that there are, x[N,C, ...]; scale = k + alpha / size * s is kept
/// (Krizhevsky et al. 2012, section 3.3, with PyTorch's division by size). f32 or f64.
struct LocalResponse {
  std::int64_t size = 5;
  double alpha = 1e-4, beta = 0.75, k = 1.0;
};
void local_response_norm_forward(const Tensor& x, const LocalResponse& options, const Tensor& y,
                                 const Tensor& scale);
void local_response_norm_backward(const Tensor& grad_y, const Tensor& x,
                                  const LocalResponse& options, const Tensor& scale,
                                  bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
