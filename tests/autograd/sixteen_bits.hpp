#pragma once
// What tests of bf16 and f16 variables share.
#include <vector>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep::test {

inline constexpr DType narrow_types[] = {DType::bf16, DType::f16};

inline std::vector<double> numbers(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

/// `value` rounded to f32, then to dtype.
inline double rounded(double value, DType dtype) {
  return Tensor::full({}, value, DType::f64).to(DType::f32).to(dtype).item();
}

}  // namespace lockstep::test
