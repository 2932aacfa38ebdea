#include <lockstep/tensor/math/gemm.hpp>

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/dense_product.hpp>
#include <lockstep/tensor/math/gemv.hpp>
#include <lockstep/tensor/math/narrow_product.hpp>
#include <lockstep/tensor/math/onednn.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::math {
namespace {

/// Handles a product without terms; false if there is one to compute.
template <class T>
bool is_trivial(std::int64_t m, std::int64_t n, std::int64_t k, T beta, T* c, std::int64_t stride) {
  if (m == 0 || n == 0) return true;
  if (k > 0) return false;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      T& element = c[i * stride + j];
      element = beta == T{0} ? T{0} : beta * element;
    }
  }
  return true;
}

int blas_int(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw Error("a matrix product with an extent of " + std::to_string(value) +
                " is above the BLAS's largest index (2^31 - 1)");
  }
  return static_cast<int>(value);
}

CBLAS_TRANSPOSE blas_transpose(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void f32_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
              const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  if (m == 1 && b.transposed && (!a.transposed || a.stride == 1))
    return gemv(n, k, b.data, b.stride, a.data, beta, c);
  // oneDNN's matmul for long sums of dense matrices with a transposed one. There sgemm copies b
  // into memory that it allocates from the system in every call (1 MiB for 128 x 784 x 512, and
  // glibc's aligned allocations leave a few of them behind); matmul needs 0.13 MiB of the
  // workspace. Measured on one Zen 5 core, GFLOP/s of sgemm and matmul: 128 x 784 x 512 241 and
  // 239, 128 x 512 x 256 222 and 242, 128 x 256 x 10 106 and 138, 1568 x 768 x 192 242 and 243.
  // Elsewhere sgemm is as fast or faster. Speed of matmul relative to sgemm: sums of 192 0.96 to
  // 1.04, without transposition 0.93 to 1.02, rows apart as in attention 0.82 to 0.91, a training
  // step of the transformer 0.97.
  constexpr std::int64_t long_sum = 256;
  const bool rows_adjoin = a.stride == k && b.stride == k && c_stride == n;
  if (!a.transposed && b.transposed && rows_adjoin && k >= long_sum && (beta == 0 || beta == 1)) {
    dense_product({.operands = dnnl::memory::data_type::f32,
                   .m = m,
                   .n = n,
                   .k = k,
                   .c_stride = n,
                   .b_transposed = true,
                   .accumulate = beta == 1})
        .run(a.data, b.data, c);
    return;
  }
  const detail::onednn::SignalsHeld held;
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F,
                                 a.data, a.stride, b.data, b.stride, beta, c, c_stride);
  if (status != dnnl_success) {
    throw Error("oneDNN's sgemm of " + std::to_string(m) + " x " + std::to_string(k) + " x " +
                std::to_string(n) + " failed with status " + std::to_string(status));
  }
}

/// Two operands of one product as matrices of To, in this thread's memory: valid until the next
/// pair.
template <class To, class From>
struct Converted {
  Converted(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<From>& from_a,
            const Matrix<From>& from_b) {
    thread_local std::vector<To> of_a, of_b;
    a = convert_elements(from_a, m, k, of_a);
    b = convert_elements(from_b, k, n, of_b);
  }
  Matrix<To> a, b;
};

template <class Half>
void half_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<Half>& a,
               const Matrix<Half>& b, float beta, float* c, std::int64_t c_stride,
               const float* bias) {
  const OneMathThread one_thread;
  if constexpr (std::is_same_v<Half, BFloat16>) {
    if (m > 0 && n > 0 && k > 0 && has_units_for(Precision::bf16)) {
      return bf16_gemm(m, n, k, a, b, beta, c, c_stride, bias);
    }
  }
  if (bias) {
    for (std::int64_t i = 0; i < m; ++i) std::copy_n(bias, n, c + i * c_stride);
    beta = 1;
  }
  if (is_trivial(m, n, k, beta, c, c_stride)) return;
  const Converted<float, Half> wide(m, n, k, a, b);
  f32_gemm(m, n, k, wide.a, wide.b, beta, c, c_stride);
}

template <class Half>
void rounded_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
                  const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  const Converted<Half, float> narrow(m, n, k, a, b);
  gemm(m, n, k, narrow.a, narrow.b, beta, c, c_stride);
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<BFloat16>& a,
          const Matrix<BFloat16>& b, float beta, float* c, std::int64_t c_stride,
          const float* bias) {
  half_gemm(m, n, k, a, b, beta, c, c_stride, bias);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<Float16>& a,
          const Matrix<Float16>& b, float beta, float* c, std::int64_t c_stride,
          const float* bias) {
  half_gemm(m, n, k, a, b, beta, c, c_stride, bias);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
          const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  if (is_trivial(m, n, k, beta, c, c_stride)) return;
  // With several threads it divides long sums among them, so the bits would depend on their number.
  const OneMathThread one_thread;
  switch (product_precision()) {
    case Precision::f32:
      return f32_gemm(m, n, k, a, b, beta, c, c_stride);
    case Precision::bf16:
      return rounded_gemm<BFloat16>(m, n, k, a, b, beta, c, c_stride);
    case Precision::fp16:
      return rounded_gemm<Float16>(m, n, k, a, b, beta, c, c_stride);
  }
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<double>& a,
          const Matrix<double>& b, double beta, double* c, std::int64_t c_stride) {
  if (is_trivial(m, n, k, beta, c, c_stride)) return;
  cblas_dgemm(CblasRowMajor, blas_transpose(a.transposed), blas_transpose(b.transposed),
              blas_int(m), blas_int(n), blas_int(k), 1.0, a.data, blas_int(a.stride), b.data,
              blas_int(b.stride), beta, c, blas_int(c_stride));
}

}  // namespace lockstep::math
