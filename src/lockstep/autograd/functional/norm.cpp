#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/norm.hpp>

namespace lockstep {
namespace {

class LayerNormNode : public PooledNode<LayerNormNode> {
 public:
  LayerNormNode(Tensor mean, Tensor inverse_std)
      : mean_(std::move(mean)), inverse_std_(std::move(inverse_std)) {}

  void backward(const Tensor& grad_output) override {
    auto x = grad_target(0), weight = grad_target(1), bias = grad_target(2);
    layer_norm_backward(
        grad_output, input(0).data(), input(1).data(), mean_, inverse_std_,
        {x.wanted ? x.tensor : Tensor(), weight.wanted ? weight.tensor : Tensor(),
         bias.wanted ? bias.tensor : Tensor(), x.accumulate, weight.accumulate, bias.accumulate});
  }
  [[nodiscard]] const char* name() const noexcept override { return "layer_norm"; }

 private:
  Tensor mean_, inverse_std_;
};

class RmsNormNode : public PooledNode<RmsNormNode> {
 public:
  explicit RmsNormNode(Tensor inverse_rms) : inverse_rms_(std::move(inverse_rms)) {}

  void backward(const Tensor& grad_output) override {
    auto x = grad_target(0), weight = grad_target(1);
    rms_norm_backward(grad_output, input(0).data(), input(1).data(), inverse_rms_,
                      {x.wanted ? x.tensor : Tensor(), weight.wanted ? weight.tensor : Tensor(),
                       Tensor(), x.accumulate, weight.accumulate});
  }
  [[nodiscard]] const char* name() const noexcept override { return "rms_norm"; }

 private:
  Tensor inverse_rms_;
};

}  // namespace

Variable layer_norm(const Variable& x, const Variable& weight, const Variable& bias, double eps) {
  const Tensor &in = x.data(), &w = weight.data();
  const Tensor b = bias.defined() ? bias.data() : Tensor();
  check_norm("layer_norm", in, w, b);
  const Shape rows = norm_rows(in, w);
  Tensor y = Tensor::empty(in.shape(), in.dtype(), in.device());
  Tensor mean = Tensor::empty(rows, in.dtype(), in.device());
  Tensor inverse_std = Tensor::empty(rows, in.dtype(), in.device());
  layer_norm_forward(in, w, b, eps, y, mean, inverse_std);
  return record<LayerNormNode>(std::move(y), {&x, &weight, &bias}, std::move(mean),
                               std::move(inverse_std));
}

Variable rms_norm(const Variable& x, const Variable& weight, double eps) {
  const Tensor &in = x.data(), &w = weight.data();
  check_norm("rms_norm", in, w, Tensor());
  Tensor y = Tensor::empty(in.shape(), in.dtype(), in.device());
  Tensor inverse_rms = Tensor::empty(norm_rows(in, w), in.dtype(), in.device());
  rms_norm_forward(in, w, eps, y, inverse_rms);
  return record<RmsNormNode>(std::move(y), {&x, &weight}, std::move(inverse_rms));
}

}  // namespace lockstep
