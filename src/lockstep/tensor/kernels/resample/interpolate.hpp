#pragma once
#include <array>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Images under another size; f32 or f64, on any device. x and y are [planes, D, H, W], their last
// three dimensions of any extents.

namespace lockstep {

/// Input places per output place along D, H, W: the reciprocal of what PyTorch calls scale.
using Ratios = std::array<double, 3>;

/// y[i] = x[floor(i ratio)] along each dimension; x[i] and x[floor(i / 2)] where its extent stays
/// or doubles, whatever the ratio.
void nearest_forward(const Tensor& x, const Ratios& ratios, const Tensor& y);
void nearest_backward(const Tensor& grad_y, const Ratios& ratios, bool accumulate,
                      const Tensor& grad_x);

/// y at i is between x at floor(s) and the next one, s = ratio (i + 1/2) - 1/2, but not below 0, or
/// i (n - 1) / (m - 1) with align_corners, along H and W (D is 1). x along a dimension whose extent
/// stays, whatever the ratio.
void bilinear_forward(const Tensor& x, const Ratios& ratios, bool align_corners, const Tensor& y);
void bilinear_backward(const Tensor& grad_y, const Ratios& ratios, bool align_corners,
                       bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
