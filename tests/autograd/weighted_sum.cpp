#include "weighted_sum.hpp"

#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep::test {
namespace {

class WeightedSumNode : public PooledNode<WeightedSumNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit WeightedSumNode(Tensor weight) : weight_(std::move(weight)) {}

  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    const Tensor weight = weight_.reshape(x.tensor.shape());
    if (!x.accumulate) x.tensor.zero();
    add_scaled(weight, grad_output.item(), x.tensor);
  }
  [[nodiscard]] const char* name() const noexcept override { return "weighted_sum"; }

 private:
  Tensor weight_;
};

}  // namespace

Variable weighted_sum(const Variable& x, const Tensor& weight) {
  const auto a = x.data().to(DType::f64).to_vector<double>();
  const auto b = weight.to(DType::f64).to_vector<double>();
  if (a.size() != b.size()) {
    throw ShapeError("weighted_sum of " + describe(x.data()) + " and " + describe(weight));
  }
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return record<WeightedSumNode>(Tensor::full({}, total, x.data().dtype(), x.data().device()), {&x},
                                 weight);
}

}  // namespace lockstep::test
