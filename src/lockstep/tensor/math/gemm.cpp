#include <lockstep/tensor/math/gemm.hpp>

#include <cblas.h>
#include <dnnl.h>

#include <limits>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep::math {
namespace {

/// The product without a term; false if there is a real one to compute.
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
                " is beyond what the BLAS counts (2^31 - 1)");
  }
  return static_cast<int>(value);
}

CBLAS_TRANSPOSE blas_transpose(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
          const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  if (is_trivial(m, n, k, beta, c, c_stride)) return;
  // With several threads it divides long sums among them, and their number would show in the bits.
  const OneMathThread one_thread;
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F,
                                 a.data, a.stride, b.data, b.stride, beta, c, c_stride);
  if (status != dnnl_success) {
    throw Error("oneDNN's sgemm of " + std::to_string(m) + " x " + std::to_string(k) + " x " +
                std::to_string(n) + " failed with status " + std::to_string(status));
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
