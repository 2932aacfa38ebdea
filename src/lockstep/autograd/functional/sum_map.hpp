#pragma once
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep::detail {

/// sum, or mean if the divisor is not 1; its transpose repeats. For linear_map.hpp.
struct SumMap {
  const char* label;
  Shape kept;  ///< the result's, with reduced dimensions of extent 1
  double divisor;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    reduce_sum(x, divisor, accumulate, y.reshape(kept));
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    Tensor share = y.reshape(kept);
    if (divisor != 1.0) {
      share = Tensor::empty_like(share);
      arithmetic(Arithmetic::divide, y.reshape(kept), divisor, false, share);
    }
    expand_copy(share, accumulate, x);
  }
  [[nodiscard]] const char* name() const noexcept { return label; }
};

}  // namespace lockstep::detail
