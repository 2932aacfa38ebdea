#include <lockstep/autograd/functional/order.hpp>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/data/index.hpp>
#include <lockstep/tensor/kernels/reduce/cumsum.hpp>
#include <lockstep/tensor/kernels/reduce/sort.hpp>

namespace lockstep {
namespace {

struct CumsumMap {
  int dim;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    lockstep::cumsum(x, dim, false, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    lockstep::cumsum(y, dim, true, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "cumsum"; }
};

/// sort and topk: each element of the result is an element of x.
struct OrderMap {
  const char* label;
  int dim;
  Tensor indices;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) { gather_forward(x, dim, indices, to); });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    scatter_along(y, indices, dim, accumulate, x);
  }
  [[nodiscard]] const char* name() const noexcept { return label; }
};

}  // namespace

Variable cumsum(const Operand& x, int dim) {
  const int along = resolve_dim(x.shape(), dim);
  return linear_map(CumsumMap{along}, x,
                    Tensor::empty(x.shape(), x.data().dtype(), x.data().device()));
}

OrderResult sort(const Operand& x, int dim, bool descending) {
  const int along = resolve_dim(x.shape(), dim);
  const Tensor values = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  const Tensor indices = Tensor::empty(x.shape(), DType::i64, x.data().device());
  sort_along(x.data(), along, descending, values, indices);
  return {record<LinearMapNode<OrderMap>>(values, {&x}, OrderMap{"sort", along, indices}), indices};
}

OrderResult topk(const Operand& x, std::int64_t k, int dim, bool largest) {
  const int along = resolve_dim(x.shape(), dim);
  if (k < 0 || k > (x.shape().dims() == 0 ? 1 : x.shape()[along])) {
    throw ShapeError("topk of " + describe(x.data()) + " along dimension " + std::to_string(dim) +
                     ": k = " + std::to_string(k) + " must be between 0 and its extent");
  }
  const Shape shape = with_extent(x.shape(), along, k);
  const Tensor values = Tensor::empty(shape, x.data().dtype(), x.data().device());
  const Tensor indices = Tensor::empty(shape, DType::i64, x.data().device());
  topk_along(x.data(), along, largest, values, indices);
  return {record<LinearMapNode<OrderMap>>(values, {&x}, OrderMap{"topk", along, indices}), indices};
}

}  // namespace lockstep
