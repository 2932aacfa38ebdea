#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// One dimension under another size: x[outer, n, inner] -> y[outer, m, inner], f32 or f64, on any
// device. Images and volumes are resampled along one dimension after the other.

namespace lockstep {

/// Between which elements, and how, an output is: `linear` two, `cubic` four, with Keys' weights
/// for a = -3/4 (Keys 1981, doi:10.1109/TASSP.1981.1163711), as PyTorch; beyond the ends the last
/// element counts.
enum class Taps : std::uint8_t { linear, cubic };

/// How places of y and x correspond: output i is at ratio (i + 1/2) - 1/2 in x, or at
/// i (n - 1) / (m - 1) with align_corners. linear keeps an extent as it is whatever the ratio.
struct Resampling {
  Taps taps;
  double ratio;
  bool align_corners;
};

void resample_forward(const Tensor& x, const Resampling& how, const Tensor& y);
/// grad_x (+)= the gradients of the outputs that each element has a part in.
void resample_backward(const Tensor& grad_y, const Resampling& how, bool accumulate,
                       const Tensor& grad_x);

}  // namespace lockstep
