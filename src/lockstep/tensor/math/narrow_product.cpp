#include <lockstep/tensor/math/narrow_product.hpp>

#include <vector>

#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/math/dense_product.hpp>

namespace lockstep::math {
namespace {

/// Of a matrix of rows x columns, as it lies in memory.
struct Stored {
  std::int64_t rows, columns;
};

Stored stored(const Matrix<float>& matrix, std::int64_t rows, std::int64_t columns) {
  return matrix.transposed ? Stored{columns, rows} : Stored{rows, columns};
}

/// Rounds element by element, rows adjoining in `out`, which grows to the largest it has held.
template <class Half, class T>
const T* round_to(const Matrix<float>& matrix, const Stored& size, std::vector<T>& out) {
  const auto elements = static_cast<std::size_t>(size.rows * size.columns);
  if (out.size() < elements) out.resize(elements);
  for (std::int64_t row = 0; row < size.rows; ++row) {
    const float* const from = matrix.data + row * matrix.stride;
    T* const to = out.data() + row * size.columns;
    for (std::int64_t i = 0; i < size.columns; ++i) to[i] = static_cast<T>(Half(from[i]));
  }
  return out.data();
}

template <class Half>
RoundedOperands rounded_to(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
                           const Matrix<float>& b) {
  thread_local std::vector<float> of_a, of_b;
  const Stored size_a = stored(a, m, k), size_b = stored(b, k, n);
  return {{round_to<Half>(a, size_a, of_a), size_a.columns, a.transposed},
          {round_to<Half>(b, size_b, of_b), size_b.columns, b.transposed}};
}

}  // namespace

void bf16_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
               const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  thread_local std::vector<BFloat16> of_a, of_b;
  const BFloat16* const narrow_a = round_to<BFloat16>(a, stored(a, m, k), of_a);
  const BFloat16* const narrow_b = round_to<BFloat16>(b, stored(b, k, n), of_b);
  if (beta != 0 && beta != 1) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) c[i * c_stride + j] *= beta;
    }
  }
  dense_product({.operands = dnnl::memory::data_type::bf16,
                 .m = m,
                 .n = n,
                 .k = k,
                 .c_stride = c_stride,
                 .a_transposed = a.transposed,
                 .b_transposed = b.transposed,
                 .accumulate = beta != 0})
      .run(narrow_a, narrow_b, c);
}

RoundedOperands rounded_operands(std::int64_t m, std::int64_t n, std::int64_t k,
                                 const Matrix<float>& a, const Matrix<float>& b,
                                 Precision precision) {
  return precision == Precision::bf16 ? rounded_to<BFloat16>(m, n, k, a, b)
                                      : rounded_to<Float16>(m, n, k, a, b);
}

}  // namespace lockstep::math
