#include <algorithm>
#include <vector>

#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/math/narrow_product.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::math {
namespace {

/// Rows [begin, begin + rows) of a.
template <class T>
Matrix<T> rows_from(const Matrix<T>& a, std::int64_t begin) {
  return {a.data + begin * (a.transposed ? 1 : a.stride), a.stride, a.transposed};
}

/// row = sums (+ row) (+ bias), rounded.
template <class Half>
void round_row(std::int64_t n, const float* sums, bool adds, const Half* bias, Half* row) {
  for (std::int64_t j = 0; j < n; ++j) {
    float sum = sums[j];
    if (adds) sum += static_cast<float>(row[j]);
    if (bias != nullptr) sum += static_cast<float>(bias[j]);
    row[j] = static_cast<Half>(sum);
  }
}

/// Sums a block of rows in f32 at a time, in this thread's memory.
template <class Half>
void gemm_in_blocks(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<Half>& a,
                    const Matrix<Half>& b, bool adds, Half* c, std::int64_t c_stride,
                    const Half* bias) {
  if (m == 0 || n == 0) return;
  constexpr std::int64_t elements = std::int64_t{1} << 16U, least = 16;
  const std::int64_t height = std::min(std::max(elements / n, least), m);
  thread_local std::vector<float> sums, of_a, of_b;
  if (std::ssize(sums) < height * n) sums.resize(static_cast<std::size_t>(height * n));
  const PrecisionGuard as_they_are(Precision::f32);
  const Matrix<float> wide_b = convert_elements(b, k, n, of_b);
  for (std::int64_t begin = 0; begin < m; begin += height) {
    const std::int64_t rows = std::min(height, m - begin);
    const Matrix<float> wide_a = convert_elements(rows_from(a, begin), rows, k, of_a);
    gemm(rows, n, k, wide_a, wide_b, 0.0F, sums.data(), n);
    for (std::int64_t i = 0; i < rows; ++i) {
      round_row(n, sums.data() + i * n, adds, bias, c + (begin + i) * c_stride);
    }
  }
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<BFloat16>& a,
          const Matrix<BFloat16>& b, float beta, BFloat16* c, std::int64_t c_stride,
          const BFloat16* bias) {
  const OneMathThread one_thread;
  if (m > 0 && n > 0 && k > 0 && has_units_for(Precision::bf16)) {
    return bf16_gemm(m, n, k, a, b, beta, c, c_stride, bias);
  }
  gemm_in_blocks(m, n, k, a, b, beta != 0, c, c_stride, bias);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<Float16>& a,
          const Matrix<Float16>& b, float beta, Float16* c, std::int64_t c_stride,
          const Float16* bias) {
  gemm_in_blocks(m, n, k, a, b, beta != 0, c, c_stride, bias);
}

}  // namespace lockstep::math
