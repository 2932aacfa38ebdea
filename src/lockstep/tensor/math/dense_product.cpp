#include <lockstep/tensor/math/dense_product.hpp>

#include <array>
#include <memory>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/onednn.hpp>
#include <lockstep/tensor/math/plan_cache.hpp>

namespace lockstep::math {

DenseProduct::DenseProduct(const Shape& shape, const Description& description)
    : shape_(shape),
      primitive_(description),
      a_(description.src_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
      b_(description.weights_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
      c_(description.dst_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
      bias_(description.bias_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
      scratchpad_(description.scratchpad_desc(), detail::onednn::cpu(), DNNL_MEMORY_NONE),
      scratchpad_bytes_(description.scratchpad_desc().get_size()) {}

DenseProduct::Description DenseProduct::describe(const Shape& p) {
  const auto operand = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
    const dnnl::memory::dims strides =
        transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1};
    return dnnl::memory::desc({rows, columns}, p.operands, strides);
  };
  auto attributes = detail::onednn::scratchpad_is_ours();
  if (p.accumulate) {
    dnnl::post_ops add;
    add.append_sum();
    attributes.set_post_ops(add);
  }
  const dnnl::memory::desc c({p.m, p.n}, p.result, dnnl::memory::dims{p.c_stride, 1});
  const dnnl::memory::desc bias =
      p.bias ? dnnl::memory::desc({1, p.n}, p.result, dnnl::memory::format_tag::ab)
             : dnnl::memory::desc();
  return {{operand(p.m, p.k, p.a_transposed), operand(p.k, p.n, p.b_transposed), bias, c},
          attributes,
          detail::onednn::cpu()};
}

void DenseProduct::run(const void* a, const void* b, void* c, const void* bias) {
  auto& stream = detail::onednn::stream();
  a_.set_data_handle(const_cast<void*>(a), stream);  // NOLINT: no const memory
  b_.set_data_handle(const_cast<void*>(b), stream);  // NOLINT: no const memory
  c_.set_data_handle(c, stream);
  scratchpad_.set_data_handle(detail::onednn::workspace(scratchpad_bytes_), stream);
  if (shape_.bias) bias_.set_data_handle(const_cast<void*>(bias), stream);  // NOLINT: as above
  const std::array<dnnl_exec_arg_t, 5> arguments{{{DNNL_ARG_SRC, a_.get()},
                                                  {DNNL_ARG_WEIGHTS, b_.get()},
                                                  {DNNL_ARG_DST, c_.get()},
                                                  {DNNL_ARG_SCRATCHPAD, scratchpad_.get()},
                                                  {DNNL_ARG_BIAS, bias_.get()}}};
  detail::onednn::execute(primitive_, arguments.data(), shape_.bias ? 5 : 4, "a matrix product");
}

DenseProduct& dense_product(const DenseProduct::Shape& shape) {
  thread_local detail::PlanCache<DenseProduct> products;
  return products.find_or_make([&](const DenseProduct& one) { return one.shape() == shape; },
                               [&] {
                                 try {
                                   return std::make_unique<DenseProduct>(shape);
                                 } catch (const dnnl::error& error) {
                                   throw Error("oneDNN cannot compute a matrix product of " +
                                               std::to_string(shape.m) + " x " +
                                               std::to_string(shape.k) + " x " +
                                               std::to_string(shape.n) + ": " + error.what());
                                 }
                               });
}

}  // namespace lockstep::math
