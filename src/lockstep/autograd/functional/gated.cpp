#include <lockstep/autograd/functional/gated.hpp>

#include <cmath>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/kernels/elementwise/gated.hpp>
#include <lockstep/tensor/kernels/elementwise/unary.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

/// weight[C] as [1, C, 1, ...], one number for each channel of x; weight[1] unchanged.
Tensor along_channels(const Tensor& weight, const Shape& x) {
  if (weight.numel() == 1) return weight;
  return weight.reshape(with_one_extent(x.dims(), 1, weight.numel()));
}

class PreluNode : public PooledNode<PreluNode> {
 public:
  void backward(const Tensor& grad_output) override {
    const Tensor &x = input(0).data(), &weight = input(1).data();
    if (const auto to = grad_target(0); to.wanted) {
      prelu_backward(grad_output, x, along_channels(weight, x.shape()), to.accumulate, to.tensor);
    }
    if (const auto to = grad_target(1); to.wanted) {
      const Tensor parts = Tensor::empty_like(x);
      prelu_weight_parts(grad_output, x, parts);
      Tensor sums = along_channels(to.tensor, x.shape());
      if (weight.numel() == 1) sums = sums.reshape(with_one_extent(x.dims(), 0, 1));
      reduce_sum(parts, 1, to.accumulate, sums);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable &x = input(0), &weight = input(1);
    const Shape along = along_channels(weight.data(), x.shape()).shape();
    if (d.wants(0)) {
      // At 0 the slope is the weight, but it does not depend on the weight, as in PyTorch.
      const Tensor one = Tensor::empty_like(x.data()), below = Tensor::empty_like(x.data()),
                   slope = Tensor::empty_like(x.data());
      one.fill(1.0);
      unary_backward({Unary::clamp, -HUGE_VAL, 0.0}, one, x.data(), false, below);
      prelu_backward(one, x.data(), along_channels(weight.data(), x.shape()), false, slope);
      const Variable negative(below);
      d.give(0, d.grad_output() *
                    (negative * reshape(weight, along) + (1.0 - negative) * Variable(slope)));
    }
    if (d.wants(1)) {
      const Variable parts = d.grad_output() * clamp_max(x, 0.0);
      d.give(1, reshape(sum_to_size(parts, along), weight.shape()));
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "prelu"; }
};

class GluNode : public PooledNode<GluNode> {
 public:
  explicit GluNode(int dim) : dim_(dim) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      glu_backward(grad_output, input(0).data(), dim_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const std::int64_t half = inputs[0].shape()[dim_] / 2;
      return narrow(inputs[0], dim_, 0, half) * sigmoid(narrow(inputs[0], dim_, half, half));
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "glu"; }

 private:
  int dim_;
};

}  // namespace

Variable prelu(const Operand& x, const Operand& weight) {
  const Shape& shape = x.shape();
  const std::int64_t channels = shape.dims() < 2 ? 1 : shape[1], given = weight.shape().numel();
  if (weight.shape().dims() > 1 || (given != 1 && given != channels)) {
    throw ShapeError("prelu of " + describe(x.data()) + " with weight " + describe(weight.data()) +
                     ": the weight must have one element, or one for each of the " +
                     std::to_string(channels) + " channels (dimension 1)");
  }
  Tensor y = Tensor::empty(shape, x.data().dtype(), x.data().device());
  prelu_forward(x.data(), along_channels(weight.data(), shape), y);
  return record<PreluNode>(std::move(y), {&x, &weight});
}

Variable glu(const Variable& input, int dim) {
  const int d = resolve_dim(input.shape(), dim);
  if (input.shape()[d] % 2 != 0) {
    throw ShapeError("glu of " + describe(input.data()) + " along dimension " +
                     std::to_string(dim) +
                     ": its extent must be even, because it is split into halves");
  }
  return natively(
      [&](const Variable& x) {
        const Shape half = with_extent(x.shape(), d, x.shape()[d] / 2);
        Tensor y = Tensor::empty(half, x.data().dtype(), x.data().device());
        glu_forward(x.data(), d, y);
        return record<GluNode>(std::move(y), {&x}, d);
      },
      input);
}

}  // namespace lockstep
