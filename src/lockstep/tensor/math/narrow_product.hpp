#pragma once
#include <cstdint>

#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::math {

/// c[m,n] = a[m,k] b[k,n] + beta c, a and b rounded to bf16, sums and c in f32, by one thread, in
/// oneDNN. Only where has_units_for(bf16). GFLOP/s of a Zen 5 core, rounding included, and of
/// sgemm: 1024 x 384 x 1536 469 and 200, 1536 x 1024 x 384 transposed 399 and 137, 128 x 784 x 512
/// 411 and 228, 64 x 64 x 64 266 and 147.
void bf16_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
               const Matrix<float>& b, float beta, float* c, std::int64_t c_stride);

/// Two operands of one product, rounded, in this thread's memory: until its next call.
struct RoundedOperands {
  Matrix<float> a, b;
};
[[nodiscard]] RoundedOperands rounded_operands(std::int64_t m, std::int64_t n, std::int64_t k,
                                               const Matrix<float>& a, const Matrix<float>& b,
                                               Precision precision);

}  // namespace lockstep::math
