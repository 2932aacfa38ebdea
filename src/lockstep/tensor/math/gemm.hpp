#pragma once
#include <cstdint>

#include <lockstep/tensor/half.hpp>

namespace lockstep::math {

/// A row-major matrix in host memory, or the transpose of one: rows * columns is the shape as the
/// product sees it, `stride` the distance between stored rows.
template <class T>
struct Matrix {
  const T* data;
  std::int64_t stride;
  bool transposed = false;
};

/// c[m,n] = a[m,k] b[k,n] + beta c, row-major on the host, by one thread; any extent may be 0, and
/// with beta 0 the old c is not read. float runs in oneDNN (dnnl_sgemm, and matmul for long sums
/// with b transposed: 1.3 to 2.2 times Debian's OpenBLAS on 64 x 320 x 50 up to 512 cubed,
/// AVX-512) and, a single row by a transposed b, in gemv, which oneDNN takes twice as long for;
/// double in the BLAS. Operands of float are rounded to product_precision() first.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
          const Matrix<float>& b, float beta, float* c, std::int64_t c_stride);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<double>& a,
          const Matrix<double>& b, double beta, double* c, std::int64_t c_stride);

/// The same of operands that are rounded already, sums and c in f32, and bias[n], if given, to each
/// row (then beta is 0): bf16 in oneDNN where
/// has_units_for() it, else in f32. GFLOP/s of a Zen 5 core with what rounding takes, and of sgemm:
/// 1024 x 384 x 1536 469 and 200, 1536 x 1024 x 384 transposed 399 and 137, 128 x 784 x 512 411 and
/// 228, 64 x 64 x 64 266 and 147.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<BFloat16>& a,
          const Matrix<BFloat16>& b, float beta, float* c, std::int64_t c_stride,
          const float* bias = nullptr);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<Float16>& a,
          const Matrix<Float16>& b, float beta, float* c, std::int64_t c_stride,
          const float* bias = nullptr);

/// The same with c and the bias of the operands' type (gemm_narrow.cpp): sums are f32, include beta
/// c (beta is 0 or 1) and the bias, and are rounded once. In oneDNN as above, else a block of rows
/// at a time.
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<BFloat16>& a,
          const Matrix<BFloat16>& b, float beta, BFloat16* c, std::int64_t c_stride,
          const BFloat16* bias = nullptr);
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<Float16>& a,
          const Matrix<Float16>& b, float beta, Float16* c, std::int64_t c_stride,
          const Float16* bias = nullptr);

}  // namespace lockstep::math
