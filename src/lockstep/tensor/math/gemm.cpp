#include <lockstep/tensor/math/gemm.hpp>

#include <cblas.h>
#include <dnnl.h>

#include <array>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/gemv.hpp>
#include <lockstep/tensor/math/narrow_product.hpp>
#include <lockstep/tensor/math/onednn.hpp>
#include <lockstep/tensor/math/plan_cache.hpp>
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

/// What a product by a transposed matrix, c[m,n] (+)= a[m,k] b[n,k]^T, is made for; rows
/// adjoin.
struct ProductShape {
  std::int64_t m, n, k;
  bool accumulate;
  friend bool operator==(const ProductShape&, const ProductShape&) = default;
};

/// oneDNN's matmul for c (+)= a b^T, which is for the long sums of dense matrices. There sgemm
/// copies b into memory that it takes from the system in every call (1 MiB for 128 x 784 x 512, and
/// glibc's aligned allocations leave a few of them behind); this one needs 0.13 MiB of the
/// workspace. Measured on one Zen 5 core, GFLOP/s of sgemm and matmul: 128 x 784 x 512 241 and 239,
/// 128 x 512 x 256 222 and 242, 128 x 256 x 10 106 and 138, 1568 x 768 x 192 242 and 243. Elsewhere
/// sgemm is as fast or faster: sums of 192 0.96 to 1.04, without transposition 0.93 to 1.02, rows
/// apart as in attention 0.82 to 0.91 times its speed, and a training step of the transformer 0.97
/// times.
class ProductByTransposed {
 public:
  explicit ProductByTransposed(const ProductShape& shape)
      : ProductByTransposed(shape, describe(shape)) {}

  [[nodiscard]] const ProductShape& shape() const { return shape_; }

  void run(const float* a, const float* b, float* c) {
    auto& stream = detail::onednn::stream();
    a_.set_data_handle(const_cast<float*>(a), stream);  // NOLINT: no const memory
    b_.set_data_handle(const_cast<float*>(b), stream);  // NOLINT: no const memory
    c_.set_data_handle(c, stream);
    scratchpad_.set_data_handle(detail::onednn::workspace(scratchpad_bytes_), stream);
    const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, a_.get()},
                                                    {DNNL_ARG_WEIGHTS, b_.get()},
                                                    {DNNL_ARG_DST, c_.get()},
                                                    {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}};
    detail::onednn::execute(primitive_, arguments, "a matrix product");
  }

 private:
  using Description = dnnl::matmul::primitive_desc;

  ProductByTransposed(const ProductShape& shape, const Description& description)
      : shape_(shape),
        primitive_(description),
        a_(description.src_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        b_(description.weights_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        c_(description.dst_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        scratchpad_(description.scratchpad_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        scratchpad_bytes_(description.scratchpad_desc().get_size()) {}

  static Description describe(const ProductShape& p) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                           std::int64_t column_stride) {
      return dnnl::memory::desc({rows, columns}, dnnl::memory::data_type::f32,
                                {row_stride, column_stride});
    };
    auto attributes = detail::onednn::scratchpad_is_ours();
    if (p.accumulate) {
      dnnl::post_ops add;
      add.append_sum();
      attributes.set_post_ops(add);
    }
    return {{matrix(p.m, p.k, p.k, 1), matrix(p.k, p.n, 1, p.k), matrix(p.m, p.n, p.n, 1)},
            attributes,
            detail::onednn::cpu()};
  }

  ProductShape shape_;
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, scratchpad_;
  std::size_t scratchpad_bytes_;
};

/// This thread's product of a shape, made at the first call.
ProductByTransposed& product_by_transposed(const ProductShape& shape) {
  thread_local detail::PlanCache<ProductByTransposed> products;
  return products.find_or_make([&](const ProductByTransposed& one) { return one.shape() == shape; },
                               [&] {
                                 try {
                                   return std::make_unique<ProductByTransposed>(shape);
                                 } catch (const dnnl::error& error) {
                                   throw Error("oneDNN cannot compute a matrix product of " +
                                               std::to_string(shape.m) + " x " +
                                               std::to_string(shape.k) + " x " +
                                               std::to_string(shape.n) + ": " + error.what());
                                 }
                               });
}

void f32_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
              const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  if (m == 1 && b.transposed && (!a.transposed || a.stride == 1))
    return gemv(n, k, b.data, b.stride, a.data, beta, c);
  constexpr std::int64_t long_sum = 256;
  const bool rows_adjoin = a.stride == k && b.stride == k && c_stride == n;
  if (!a.transposed && b.transposed && rows_adjoin && k >= long_sum && (beta == 0 || beta == 1)) {
    product_by_transposed({m, n, k, beta == 1}).run(a.data, b.data, c);
    return;
  }
  const auto status = dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0F,
                                 a.data, a.stride, b.data, b.stride, beta, c, c_stride);
  if (status != dnnl_success) {
    throw Error("oneDNN's sgemm of " + std::to_string(m) + " x " + std::to_string(k) + " x " +
                std::to_string(n) + " failed with status " + std::to_string(status));
  }
}

}  // namespace

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<float>& a,
          const Matrix<float>& b, float beta, float* c, std::int64_t c_stride) {
  if (is_trivial(m, n, k, beta, c, c_stride)) return;
  // With several threads it divides long sums among them, and their number would show in the bits.
  const OneMathThread one_thread;
  const Precision precision = product_precision();
  if (precision == Precision::f32) return f32_gemm(m, n, k, a, b, beta, c, c_stride);
  if (has_units_for(precision)) return bf16_gemm(m, n, k, a, b, beta, c, c_stride);
  const RoundedOperands rounded = rounded_operands(m, n, k, a, b, precision);
  f32_gemm(m, n, k, rounded.a, rounded.b, beta, c, c_stride);
}

void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix<double>& a,
          const Matrix<double>& b, double beta, double* c, std::int64_t c_stride) {
  if (is_trivial(m, n, k, beta, c, c_stride)) return;
  cblas_dgemm(CblasRowMajor, blas_transpose(a.transposed), blas_transpose(b.transposed),
              blas_int(m), blas_int(n), blas_int(k), 1.0, a.data, blas_int(a.stride), b.data,
              blas_int(b.stride), beta, c, blas_int(c_stride));
}

}  // namespace lockstep::math
