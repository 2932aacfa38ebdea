#pragma once
#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::math {

class PackedProduct;

/// A matrix b[k,n], packed once for many products c[m,n] = a[m,k] b + beta c with few rows m, beta
/// 0 or 1, and contiguous rows of a and c. float runs in oneDNN's matmul with weights in its own
/// order; packing 800 x 200 takes as long as a product of 20 rows. GFLOP/s beside sgemm's, one Xeon
/// core: 20 x 200 x 800 196 and 138 to 154, 20 x 800 x 200 189 and 167. Its operands are rounded to
/// the product_precision() of the thread that makes it. double keeps b as it is, which must live as
/// long, and runs in the BLAS. On the thread that made it.
template <class T>
class PackedMatrix;

template <>
class PackedMatrix<float> {
 public:
  PackedMatrix(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& b, float beta);
  void multiply(const float* a, float* c) const;

 private:
  /// The order of b may depend on all of it, so that one product both arranges and multiplies.
  PackedProduct& product() const;
  [[nodiscard]] bool narrow() const;

  std::int64_t m_, n_, k_;
  Matrix<float> b_;
  float beta_;
  Precision precision_;
  Tensor packed_;
};

template <>
class PackedMatrix<double> {
 public:
  PackedMatrix(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<double>& b, double beta)
      : m_(m), n_(n), k_(k), b_(b), beta_(beta) {}
  void multiply(const double* a, double* c) const { gemm(m_, n_, k_, {a, k_}, b_, beta_, c, n_); }

 private:
  std::int64_t m_, n_, k_;
  Matrix<double> b_;
  double beta_;
};

}  // namespace lockstep::math
