#include <lockstep/tensor/math/narrow_product.hpp>

#include <type_traits>

#include <lockstep/tensor/math/dense_product.hpp>

namespace lockstep::math {
namespace {

/// The same matrix with adjoining rows.
const BFloat16* dense(const Matrix<BFloat16>& matrix, std::int64_t rows, std::int64_t columns,
                      std::vector<BFloat16>& copy) {
  const std::int64_t width = matrix.transposed ? rows : columns;
  return matrix.stride == width ? matrix.data : convert_elements(matrix, rows, columns, copy).data;
}

}  // namespace

Matrix<float> rounded_elements(const Matrix<float>& matrix, std::int64_t rows, std::int64_t columns,
                               Precision precision, std::vector<float>& out) {
  return precision == Precision::bf16
             ? convert_elements<float, BFloat16>(matrix, rows, columns, out)
             : convert_elements<float, Float16>(matrix, rows, columns, out);
}

template <class C>
void bf16_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<BFloat16>& a,
               const Matrix<BFloat16>& b, float beta, C* c, std::int64_t c_stride, const C* bias) {
  constexpr bool is_narrow = std::is_same_v<C, BFloat16>;
  thread_local std::vector<BFloat16> of_a, of_b;
  const BFloat16* const dense_a = dense(a, m, k, of_a);
  const BFloat16* const dense_b = dense(b, k, n, of_b);
  if constexpr (!is_narrow) {
    for (std::int64_t i = 0; beta != 0 && beta != 1 && i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) c[i * c_stride + j] *= beta;
    }
  }
  dense_product(
      {.operands = dnnl::memory::data_type::bf16,
       .m = m,
       .n = n,
       .k = k,
       .c_stride = c_stride,
       .a_transposed = a.transposed,
       .b_transposed = b.transposed,
       .accumulate = beta != 0,
       .bias = bias != nullptr,
       .result = is_narrow ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32})
      .run(dense_a, dense_b, c, bias);
}

template void bf16_gemm(std::int64_t, std::int64_t, std::int64_t, const Matrix<BFloat16>&,
                        const Matrix<BFloat16>&, float, float*, std::int64_t, const float*);
template void bf16_gemm(std::int64_t, std::int64_t, std::int64_t, const Matrix<BFloat16>&,
                        const Matrix<BFloat16>&, float, BFloat16*, std::int64_t, const BFloat16*);

}  // namespace lockstep::math
