#pragma once
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::detail {

/// x times a scale for each element or each channel, for linear_map.hpp.
struct ScaleMap {
  static constexpr bool symmetric = true;
  const char* label;
  Tensor scale;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    apply_scale(x, scale, accumulate, y);
  }
  [[nodiscard]] const char* name() const noexcept { return label; }
};

}  // namespace lockstep::detail
