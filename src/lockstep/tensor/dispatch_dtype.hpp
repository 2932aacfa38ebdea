#pragma once
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dtype.hpp>
#include <lockstep/tensor/half.hpp>

namespace lockstep {

/// Calls `f.template operator()<float>()` or `<double>` for a floating dtype; throws ShapeError for
/// others, naming the operation.
template <class F>
void dispatch_floating(DType dtype, const char* operation, F&& f) {
  switch (dtype) {
    case DType::f32:
      std::forward<F>(f).template operator()<float>();
      return;
    case DType::f64:
      std::forward<F>(f).template operator()<double>();
      return;
    default:
      throw ShapeError(std::string(operation) + " takes f32 or f64 tensors, not " +
                       std::string(name_of(dtype)));
  }
}

/// The same with `<BFloat16>` and `<Float16>`: for kernels that store T and calculate in SumOf<T>.
template <class F>
void dispatch_stored(DType dtype, const char* operation, F&& f) {
  switch (dtype) {
    case DType::bf16:
      std::forward<F>(f).template operator()<BFloat16>();
      return;
    case DType::f16:
      std::forward<F>(f).template operator()<Float16>();
      return;
    default:
      dispatch_floating(dtype, operation, std::forward<F>(f));
  }
}

/// The type in which kernels calculate with elements of T: f32 for 16 bits. They round once, where
/// they store.
template <class T>
using SumOf = std::conditional_t<sizeof(T) == 2, float, T>;

}  // namespace lockstep
