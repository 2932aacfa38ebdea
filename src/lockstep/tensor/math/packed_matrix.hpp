#pragma once
#include <lockstep/tensor/math/gemm.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::math {

class PackedProduct;

/// A matrix b[k,n], arranged once for many products c[m,n] = a[m,k] b with few rows m. float runs
/// in oneDNN's matmul with weights in its own order; one arrangement of 800 x 200 takes as long as
/// a product of 20 rows. GFLOP/s beside sgemm's, one Xeon core: 20 x 200 x 800 196 and 138 to 154,
/// 20 x 800 x 200 189 and 167. double keeps b as it is, which must live as long, and runs in the
/// BLAS. On the thread that made it.
template <class T>
class PackedMatrix;

template <>
class PackedMatrix<float> {
 public:
  PackedMatrix(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& b);
  /// c = a b + beta c, beta being 0 or 1; the rows of a and c adjoin.
  void multiply(const float* a, float beta, float* c) const;

 private:
  PackedProduct& product(bool accumulates) const;

  std::int64_t m_, n_, k_;
  Matrix<float> b_;
  Tensor packed_;
};

template <>
class PackedMatrix<double> {
 public:
  PackedMatrix(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<double>& b)
      : m_(m), n_(n), k_(k), b_(b) {}
  void multiply(const double* a, double beta, double* c) const {
    gemm(m_, n_, k_, {a, k_}, b_, beta, c, n_);
  }

 private:
  std::int64_t m_, n_, k_;
  Matrix<double> b_;
};

}  // namespace lockstep::math
