#pragma once
// Private to the kernels' .cpp files.
#include <cmath>

#include <lockstep/tensor/view.hpp>

namespace lockstep::detail {

/// a b + c, rounded once where the processor has an instruction for it, as the compiler has
/// `c += a * b` in loops. Where a condition decides whether something is added, it might round the
/// product first.
KOKKOS_INLINE_FUNCTION float multiply_add(float a, float b, float c) {
#if defined(__FP_FAST_FMAF) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}
KOKKOS_INLINE_FUNCTION double multiply_add(double a, double b, double c) {
#if defined(__FP_FAST_FMA) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

}  // namespace lockstep::detail
