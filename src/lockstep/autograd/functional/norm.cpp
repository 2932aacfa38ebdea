#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/natively_beside.hpp>
#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/tensor/kernels/norm/norm.hpp>

namespace lockstep {
namespace {

Dims last_dims(int count) {
  std::array<int, Shape::max_dims> dims{};
  for (int d = 0; d < count; ++d) dims[static_cast<std::size_t>(d)] = d - count;
  return Dims(std::span<const int>(dims.data(), static_cast<std::size_t>(count)));
}

class LayerNormNode : public PooledNode<LayerNormNode> {
 public:
  static constexpr bool reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0b011;

  LayerNormNode(Tensor mean, Tensor inverse_std, double eps)
      : mean_(std::move(mean)), inverse_std_(std::move(inverse_std)), eps_(eps) {}

  void backward(const Tensor& grad_output) override {
    auto x = grad_target(0), weight = grad_target(1), bias = grad_target(2);
    layer_norm_backward(
        grad_output, input(0).data(), input(1).data(), mean_, inverse_std_,
        {x.wanted ? x.tensor : Tensor(), weight.wanted ? weight.tensor : Tensor(),
         bias.wanted ? bias.tensor : Tensor(), x.accumulate, weight.accumulate, bias.accumulate});
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const Variable &weight = inputs[1], &bias = inputs[2];
      return detail::rounded_once(inputs[0], [&](const Variable& x) {
        const Dims dims = last_dims(weight.shape().dims());
        const Variable centred = x - mean(x, dims, true);
        const Variable y = centred * rsqrt(mean(pow(centred, 2.0), dims, true) + eps_) * weight;
        return bias.defined() ? y + bias : y;
      });
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "layer_norm"; }

 private:
  Tensor mean_, inverse_std_;
  double eps_;
};

class RmsNormNode : public PooledNode<RmsNormNode> {
 public:
  static constexpr bool reads_outputs = false;

  RmsNormNode(Tensor inverse_rms, double eps) : inverse_rms_(std::move(inverse_rms)), eps_(eps) {}

  void backward(const Tensor& grad_output) override {
    auto x = grad_target(0), weight = grad_target(1);
    rms_norm_backward(grad_output, input(0).data(), input(1).data(), inverse_rms_,
                      {x.wanted ? x.tensor : Tensor(), weight.wanted ? weight.tensor : Tensor(),
                       Tensor(), x.accumulate, weight.accumulate});
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const Variable& weight = inputs[1];
      return detail::rounded_once(inputs[0], [&](const Variable& x) {
        return x * rsqrt(mean(pow(x, 2.0), last_dims(weight.shape().dims()), true) + eps_) * weight;
      });
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "rms_norm"; }

 private:
  Tensor inverse_rms_;
  double eps_;
};

}  // namespace

Variable layer_norm(const Variable& input, const Operand& weight, const Operand& bias, double eps) {
  const auto apply = [&](const Variable& x) {
    const Tensor &in = x.data(), &w = weight.data();
    const Tensor b = bias.defined() ? bias.data() : Tensor();
    check_norm("layer_norm", in, w, b);
    const Shape rows = norm_rows(in, w);
    Tensor y = Tensor::empty(in.shape(), in.dtype(), in.device());
    Tensor mean = Tensor::empty(rows, w.dtype(), in.device());
    Tensor inverse_std = Tensor::empty(rows, w.dtype(), in.device());
    layer_norm_forward(in, w, b, eps, y, mean, inverse_std);
    return record<LayerNormNode>(std::move(y), {&x, &weight, &bias}, std::move(mean),
                                 std::move(inverse_std), eps);
  };
  return detail::natively_beside(apply, input, weight, bias);
}

Variable rms_norm(const Variable& input, const Operand& weight, double eps) {
  const auto apply = [&](const Variable& x) {
    const Tensor &in = x.data(), &w = weight.data();
    check_norm("rms_norm", in, w, Tensor());
    Tensor y = Tensor::empty(in.shape(), in.dtype(), in.device());
    Tensor inverse_rms = Tensor::empty(norm_rows(in, w), w.dtype(), in.device());
    rms_norm_forward(in, w, eps, y, inverse_rms);
    return record<RmsNormNode>(std::move(y), {&x, &weight}, std::move(inverse_rms), eps);
  };
  return detail::natively_beside(apply, input, weight);
}

}  // namespace lockstep
