#pragma once
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::detail {

/// x times a scale for each element or each channel, for linear_map.hpp; the scale and `kept` as
/// apply_scale takes them.
struct ScaleMap {
  static constexpr bool symmetric = true;
  const char* label;
  Tensor scale;
  double kept = 1.0;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    apply_scale(x, scale, accumulate, y, kept);
  }
  [[nodiscard]] const char* name() const noexcept { return label; }
};

}  // namespace lockstep::detail
