#include <lockstep/autograd/functional/where.hpp>

#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/kernels/elementwise/gated.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

class WhereNode : public PooledNode<WhereNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit WhereNode(Tensor condition) : condition_(std::move(condition)) {}

  void backward(const Tensor& grad_output) override {
    for (const int i : {0, 1}) {
      const auto to = grad_target(i);
      if (!to.wanted) continue;
      const Tensor a = i == 0 ? grad_output : Tensor(), b = i == 0 ? Tensor() : grad_output;
      if (to.tensor.shape() == grad_output.shape()) {
        where_copy(condition_, a, b, to.accumulate, to.tensor);
        continue;
      }
      const Tensor parts =
          Tensor::empty(grad_output.shape(), grad_output.dtype(), grad_output.device());
      where_copy(condition_, a, b, false, parts);
      reduce_sum(parts, 1, to.accumulate, to.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable& g = d.grad_output();
    const Variable zero(Tensor::zeros({}, g.data().dtype(), g.data().device()));
    if (d.wants(0)) d.give(0, sum_to_size(where(condition_, g, zero), input(0).shape()));
    if (d.wants(1)) d.give(1, sum_to_size(where(condition_, zero, g), input(1).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "where"; }

 private:
  Tensor condition_;
};

}  // namespace

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  if (condition.dtype() != DType::boolean) {
    throw ShapeError("where by condition " + describe(condition) + ": it must be bool");
  }
  return natively(
      [&](const Variable& yes, const Variable& no) {
        Shape shape = broadcast_shape("where", yes.data(), no.data());
        if (!broadcasts_to(condition.shape(), shape)) {  // the condition may have the larger shape
          const Tensor like = Tensor::empty(shape, DType::boolean, condition.device());
          shape = broadcast_shape("where", condition, like);
        }
        Tensor y = Tensor::empty(shape, yes.data().dtype(), yes.data().device());
        where_copy(condition, yes.data(), no.data(), false, y);
        return record<WhereNode>(std::move(y), {&yes, &no}, condition);
      },
      a, b);
}

}  // namespace lockstep
