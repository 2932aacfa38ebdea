#include <lockstep/tensor/math/narrow_product.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/math/onednn.hpp>
#include <lockstep/tensor/math/plan_cache.hpp>

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

struct NarrowShape {
  std::int64_t m, n, k, c_stride;
  bool a_transposed, b_transposed, accumulate;
  friend bool operator==(const NarrowShape&, const NarrowShape&) = default;
};

/// oneDNN's matmul of dense bf16 matrices into f32.
class NarrowProduct {
 public:
  explicit NarrowProduct(const NarrowShape& shape) : NarrowProduct(shape, describe(shape)) {}

  [[nodiscard]] const NarrowShape& shape() const { return shape_; }

  void run(const BFloat16* a, const BFloat16* b, float* c) {
    auto& stream = detail::onednn::stream();
    a_.set_data_handle(const_cast<BFloat16*>(a), stream);  // NOLINT: no const memory
    b_.set_data_handle(const_cast<BFloat16*>(b), stream);  // NOLINT: no const memory
    c_.set_data_handle(c, stream);
    scratchpad_.set_data_handle(detail::onednn::workspace(scratchpad_bytes_), stream);
    const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, a_.get()},
                                                    {DNNL_ARG_WEIGHTS, b_.get()},
                                                    {DNNL_ARG_DST, c_.get()},
                                                    {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}};
    detail::onednn::execute(primitive_, arguments, "a matrix product in bf16");
  }

 private:
  using Description = dnnl::matmul::primitive_desc;

  NarrowProduct(const NarrowShape& shape, const Description& description)
      : shape_(shape),
        primitive_(description),
        a_(description.src_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        b_(description.weights_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        c_(description.dst_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        scratchpad_(description.scratchpad_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
        scratchpad_bytes_(description.scratchpad_desc().get_size()) {}

  static dnnl::memory::desc operand(std::int64_t rows, std::int64_t columns, bool transposed) {
    const dnnl::memory::dims strides =
        transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
    return {{rows, columns}, dnnl::memory::data_type::bf16, strides};
  }

  static Description describe(const NarrowShape& p) {
    auto attributes = detail::onednn::scratchpad_is_ours();
    if (p.accumulate) {
      dnnl::post_ops add;
      add.append_sum();
      attributes.set_post_ops(add);
    }
    const dnnl::memory::desc c({p.m, p.n}, dnnl::memory::data_type::f32,
                               dnnl::memory::dims{p.c_stride, 1});
    return {{operand(p.m, p.k, p.a_transposed), operand(p.k, p.n, p.b_transposed), c},
            attributes,
            detail::onednn::cpu()};
  }

  NarrowShape shape_;
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, scratchpad_;
  std::size_t scratchpad_bytes_;
};

/// This thread's product of a shape, made at the first call.
NarrowProduct& narrow_product(const NarrowShape& shape) {
  thread_local detail::PlanCache<NarrowProduct> products;
  return products.find_or_make([&](const NarrowProduct& one) { return one.shape() == shape; },
                               [&] {
                                 try {
                                   return std::make_unique<NarrowProduct>(shape);
                                 } catch (const dnnl::error& error) {
                                   throw Error("oneDNN cannot compute a product in bf16 of " +
                                               std::to_string(shape.m) + " x " +
                                               std::to_string(shape.k) + " x " +
                                               std::to_string(shape.n) + ": " + error.what());
                                 }
                               });
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
  narrow_product({m, n, k, c_stride, a.transposed, b.transposed, beta != 0})
      .run(narrow_a, narrow_b, c);
}

RoundedOperands rounded_operands(std::int64_t m, std::int64_t n, std::int64_t k,
                                 const Matrix<float>& a, const Matrix<float>& b,
                                 Precision precision) {
  return precision == Precision::bf16 ? rounded_to<BFloat16>(m, n, k, a, b)
                                      : rounded_to<Float16>(m, n, k, a, b);
}

}  // namespace lockstep::math
