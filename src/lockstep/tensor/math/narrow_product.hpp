#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::math {

/// `matrix`, of rows x columns, element by element as To by way of Step; rows adjoin in `out`,
/// which grows to the largest that it has held.
template <class To, class Step = To, class From>
Matrix<To> convert_elements(const Matrix<From>& matrix, std::int64_t rows, std::int64_t columns,
                            std::vector<To>& out) {
  const std::int64_t stored_rows = matrix.transposed ? columns : rows;
  const std::int64_t width = matrix.transposed ? rows : columns;
  const auto elements = static_cast<std::size_t>(stored_rows * width);
  if (out.size() < elements) out.resize(elements);
  for (std::int64_t row = 0; row < stored_rows; ++row) {
    const From* const from = matrix.data + row * matrix.stride;
    To* const to = out.data() + row * width;
    for (std::int64_t i = 0; i < width; ++i) to[i] = static_cast<To>(static_cast<Step>(from[i]));
  }
  return {out.data(), width, matrix.transposed};
}

/// The same, rounded to `precision`, f32 still.
Matrix<float> rounded_elements(const Matrix<float>& matrix, std::int64_t rows, std::int64_t columns,
                               Precision precision, std::vector<float>& out);

/// gemm() by oneDNN, by one thread; for a c of bf16, beta is 0 or 1. Only where
/// has_units_for(bf16).
template <class C>
void bf16_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<BFloat16>& a,
               const Matrix<BFloat16>& b, float beta, C* c, std::int64_t c_stride, const C* bias);
extern template void bf16_gemm(std::int64_t, std::int64_t, std::int64_t, const Matrix<BFloat16>&,
                               const Matrix<BFloat16>&, float, float*, std::int64_t, const float*);
extern template void bf16_gemm(std::int64_t, std::int64_t, std::int64_t, const Matrix<BFloat16>&,
                               const Matrix<BFloat16>&, float, BFloat16*, std::int64_t,
                               const BFloat16*);

}  // namespace lockstep::math
