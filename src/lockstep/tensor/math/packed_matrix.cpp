#include <lockstep/tensor/math/packed_matrix.hpp>

#include <array>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/narrow_product.hpp>
#include <lockstep/tensor/math/onednn.hpp>
#include <lockstep/tensor/math/plan_cache.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep::math {

namespace onednn = detail::onednn;

/// oneDNN's primitives for one shape: the product, and the reorder of b.
class PackedProduct {
 public:
  struct Problem {
    std::int64_t m, n, k, b_stride;
    bool b_transposed, accumulates, narrow;  ///< narrow: operands are bf16
    friend bool operator==(const Problem&, const Problem&) = default;
  };

  explicit PackedProduct(const Problem& problem) : PackedProduct(problem, describe(problem)) {}

  [[nodiscard]] const Problem& problem() const noexcept { return problem_; }
  [[nodiscard]] std::size_t packed_bytes() const { return packed_.get_desc().get_size(); }

  void pack(const float* b, void* packed) {
    auto& stream = onednn::stream();
    b_.set_data_handle(const_cast<float*>(b), stream);  // NOLINT: no const memory
    packed_.set_data_handle(packed, stream);
    const std::array<dnnl_exec_arg_t, 2> arguments{
        {{DNNL_ARG_FROM, b_.get()}, {DNNL_ARG_TO, packed_.get()}}};
    onednn::execute(reorder_, arguments, "an arrangement of a matrix");
  }
  void run(const void* a, void* packed, float* c) {
    auto& stream = onednn::stream();
    a_.set_data_handle(const_cast<void*>(a), stream);  // NOLINT: no const memory
    packed_.set_data_handle(packed, stream);
    c_.set_data_handle(c, stream);
    scratchpad_.set_data_handle(onednn::workspace(scratchpad_bytes_), stream);
    const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, a_.get()},
                                                    {DNNL_ARG_WEIGHTS, packed_.get()},
                                                    {DNNL_ARG_DST, c_.get()},
                                                    {DNNL_ARG_SCRATCHPAD, scratchpad_.get()}}};
    onednn::execute(product_, arguments, "a matrix product");
  }

 private:
  using Description = dnnl::matmul::primitive_desc;
  static constexpr auto f32 = dnnl::memory::data_type::f32;

  PackedProduct(const Problem& p, const Description& description)
      : problem_(p),
        product_(description),
        a_(description.src_desc(), onednn::cpu(), DNNL_MEMORY_NONE),
        b_({{p.k, p.n},
            f32,
            p.b_transposed ? dnnl::memory::dims{1, p.b_stride} : dnnl::memory::dims{p.b_stride, 1}},
           onednn::cpu(), DNNL_MEMORY_NONE),
        packed_(description.weights_desc(), onednn::cpu(), DNNL_MEMORY_NONE),
        c_(description.dst_desc(), onednn::cpu(), DNNL_MEMORY_NONE),
        scratchpad_(description.scratchpad_desc(), onednn::cpu(), DNNL_MEMORY_NONE),
        scratchpad_bytes_(description.scratchpad_desc().get_size()),
        reorder_(dnnl::reorder::primitive_desc(onednn::cpu(), b_.get_desc(), onednn::cpu(),
                                               packed_.get_desc())) {}

  static Description describe(const Problem& p) {
    using Layout = dnnl::memory::format_tag;
    auto attributes = onednn::scratchpad_is_ours();
    if (p.accumulates) {
      dnnl::post_ops add;
      add.append_sum();
      attributes.set_post_ops(add);
    }
    const auto operands = p.narrow ? dnnl::memory::data_type::bf16 : f32;
    return {{{{p.m, p.k}, operands, Layout::ab},
             {{p.k, p.n}, operands, Layout::any},
             {{p.m, p.n}, f32, Layout::ab}},
            attributes,
            onednn::cpu()};
  }

  Problem problem_;
  dnnl::matmul product_;
  dnnl::memory a_, b_, packed_, c_, scratchpad_;
  std::size_t scratchpad_bytes_;
  dnnl::reorder reorder_;
};

PackedProduct& PackedMatrix<float>::product() const {
  thread_local detail::PlanCache<PackedProduct> products;
  const PackedProduct::Problem problem{m_, n_, k_, b_.stride, b_.transposed, beta_ != 0, narrow()};
  return products.find_or_make([&](const PackedProduct& one) { return one.problem() == problem; },
                               [&] {
                                 try {
                                   return std::make_unique<PackedProduct>(problem);
                                 } catch (const dnnl::error& error) {
                                   throw Error("oneDNN cannot compute a matrix product of " +
                                               std::to_string(m_) + " x " + std::to_string(k_) +
                                               " x " + std::to_string(n_) + ": " + error.what());
                                 }
                               });
}

bool PackedMatrix<float>::narrow() const {
  return precision_ == Precision::bf16 && has_units_for(precision_);
}

PackedMatrix<float>::PackedMatrix(std::int64_t m, std::int64_t n, std::int64_t k,
                                  const Matrix<float>& b, float beta)
    : m_(m), n_(n), k_(k), b_(b), beta_(beta), precision_(product_precision()) {
  if (m == 0 || n == 0 || k == 0) return;
  const OneMathThread one_thread;
  Matrix<float> source = b;
  if (precision_ != Precision::f32 && !narrow()) {
    thread_local std::vector<float> rounded;
    source = rounded_elements(b, k, n, precision_, rounded);
    b_.stride = source.stride;  // for product()
  }
  PackedProduct& product = this->product();
  packed_ = Tensor::empty({static_cast<std::int64_t>(product.packed_bytes())}, DType::u8);
  product.pack(source.data, packed_.data());
}

void PackedMatrix<float>::multiply(const float* a, float* c) const {
  if (!packed_.defined()) return gemm(m_, n_, k_, {a, k_}, b_, beta_, c, n_);
  const OneMathThread one_thread;
  if (precision_ == Precision::f32) return product().run(a, packed_.data(), c);
  thread_local std::vector<BFloat16> narrow_a;
  thread_local std::vector<float> rounded_a;
  const Matrix<float> rows{a, k_};
  product().run(narrow() ? static_cast<const void*>(convert_elements(rows, m_, k_, narrow_a).data)
                         : rounded_elements(rows, m_, k_, precision_, rounded_a).data,
                packed_.data(), c);
}

}  // namespace lockstep::math
