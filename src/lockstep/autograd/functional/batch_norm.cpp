#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/tensor/kernels/batch_norm.hpp>
#include <lockstep/tensor/kernels/channel_blocks.hpp>

namespace lockstep {
namespace {

class BatchNormNode : public PooledNode<BatchNormNode> {
 public:
  static constexpr bool mixes_layouts = true;

  BatchNormNode(BatchNormInputs inputs, bool training, BatchNormSaved saved, Tensor y)
      : inputs_(std::move(inputs)),
        training_(training),
        saved_(std::move(saved)),
        y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    auto residual = grad_target(3);
    auto x = grad_target(0), weight = grad_target(1), bias = grad_target(2);
    BatchNormGradients gradients;
    if (x.wanted) gradients.x = std::move(x.tensor);
    if (weight.wanted) gradients.weight = std::move(weight.tensor);
    if (bias.wanted) gradients.bias = std::move(bias.tensor);
    if (residual.wanted) gradients.residual = std::move(residual.tensor);
    gradients.accumulate_x = x.accumulate;
    gradients.accumulate_weight = weight.accumulate;
    gradients.accumulate_bias = bias.accumulate;
    gradients.accumulate_residual = residual.accumulate;
    batch_norm_backward(inputs_, training_, saved_, y_, grad_output, gradients);
  }
  [[nodiscard]] const char* name() const noexcept override { return "batch_norm"; }

 private:
  BatchNormInputs inputs_;
  bool training_;
  BatchNormSaved saved_;
  Tensor y_;
};

}  // namespace

Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    const BatchNormStatistics& statistics, bool training, double momentum,
                    double eps, const Variable& shortcut, bool relu) {
  const Variable residual = !shortcut.defined()            ? shortcut
                            : is_channel_blocked(x.data()) ? to_channel_blocks(shortcut)
                                                           : from_channel_blocks(shortcut);
  BatchNormInputs inputs{.x = x.data(),
                         .weight = weight.data(),
                         .bias = bias.data(),
                         .running_mean = statistics.running_mean,
                         .running_var = statistics.running_var,
                         .residual = residual.defined() ? residual.data() : Tensor(),
                         .relu = relu};
  check_batch_norm(inputs, training);
  const auto empty = [&](const Shape& shape) {
    return Tensor::empty(shape, x.data().dtype(), x.data().device());
  };
  Tensor y = Tensor::empty_like(x.data());
  BatchNormSaved saved{empty(weight.shape()), empty(weight.shape())};
  batch_norm_forward(inputs, training, momentum, eps, y, saved);
  Tensor kept = relu ? y : Tensor();
  return record<BatchNormNode>(std::move(y), {&x, &weight, &bias, &residual}, std::move(inputs),
                               training, std::move(saved), std::move(kept));
}

}  // namespace lockstep
