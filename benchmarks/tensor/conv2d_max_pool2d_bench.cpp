// The two fused layers of the ConvNet, one batch per iteration; items are samples.
#include <benchmark/benchmark.h>

#include <vector>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

namespace lockstep {
namespace {

Tensor uniform(const Shape& shape, std::uint64_t stream, float bound) {
  PhiloxSequence sequence(1, stream);
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (float& e : elements) e = bound * (2.0F * sequence.uniform() - 1.0F);
  return Tensor::from(elements, shape);
}

struct Layer {
  Conv2dMaxPool2dInputs inputs;
  Tensor y, code, grad_y;
  Conv2dMaxPool2dGradients gradients;
};

/// PyTorch's default initialisation: uniform within 1 / sqrt(fan in).
Layer make_layer(const Shape& x, const Shape& weight, float bound) {
  Layer layer;
  layer.inputs.x = uniform(x, 1, 1.0F);
  layer.inputs.weight = uniform(weight, 2, bound);
  layer.inputs.bias = uniform({weight[0]}, 3, bound);
  layer.inputs.pool = {2, 2};
  const Shape shape = conv2d_max_pool2d_shape(x, weight, layer.inputs.conv, layer.inputs.pool);
  layer.y = Tensor::empty(shape);
  layer.code = Tensor::empty(shape, DType::u8);
  layer.grad_y = uniform(shape, 4, 0.01F);
  layer.gradients.weight = Tensor::empty(weight);
  layer.gradients.bias = Tensor::empty({weight[0]});
  return layer;
}

/// conv 1 -> 10, k5, on images: no gradient of x.
Layer first_layer(std::int64_t batch) {
  return make_layer({batch, 1, 28, 28}, {10, 1, 5, 5}, 0.2F);
}

/// conv 10 -> 20, k5, dropout2d.
Layer second_layer(std::int64_t batch) {
  Layer layer = make_layer({batch, 10, 12, 12}, {20, 10, 5, 5}, 0.0632F);
  layer.inputs.channel_scale = Tensor::empty({batch, 20});
  dropout_scale(0.5, {1, 2, 3, 0}, layer.inputs.channel_scale);
  layer.gradients.x = Tensor::empty(layer.inputs.x.shape());
  return layer;
}

void forward(benchmark::State& state, Layer (*make)(std::int64_t)) {
  const Layer layer = make(state.range(0));
  for (auto _ : state) conv2d_max_pool2d_relu_forward(layer.inputs, layer.y, layer.code);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void backward(benchmark::State& state, Layer (*make)(std::int64_t)) {
  const Layer layer = make(state.range(0));
  conv2d_max_pool2d_relu_forward(layer.inputs, layer.y, layer.code);
  for (auto _ : state) {
    conv2d_max_pool2d_relu_backward(layer.inputs, layer.y, layer.code, layer.grad_y,
                                    layer.gradients);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(forward, conv1, first_layer)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(forward, conv2, second_layer)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(backward, conv1, first_layer)->Arg(64)->Arg(128);
BENCHMARK_CAPTURE(backward, conv2, second_layer)->Arg(64)->Arg(128);

}  // namespace
}  // namespace lockstep
