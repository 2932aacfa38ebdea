#pragma once
#include <lockstep/tensor/dtype.hpp>

namespace lockstep {

/// The type in which kernels calculate with elements of a floating dtype, SumOf<T> of
/// dispatch_dtype.hpp: f32 for one of 16 bits. Statistics and parameters beside tensors that store
/// 16 bits are of it.
[[nodiscard]] constexpr DType sum_dtype(DType stored) noexcept {
  return is_half(stored) ? DType::f32 : stored;
}

}  // namespace lockstep
