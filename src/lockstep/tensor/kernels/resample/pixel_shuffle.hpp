#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Between shuffled planes y[P, H r, W r] and parts x[P, r, r, H, W], x[p, i, j, h, w] =
// y[p, h r + i, w r + j] (Shi et al. 2016, arXiv:1609.05158); f32 or f64, on any device.

namespace lockstep {

/// y (+)= x shuffled. P, H and W are those of x, given as [P, r, r, H, W].
void pixel_shuffle_copy(const Tensor& x, bool accumulate, const Tensor& y);
/// The inverse: x (+)= y in parts.
void pixel_unshuffle_copy(const Tensor& y, bool accumulate, const Tensor& x);

}  // namespace lockstep
