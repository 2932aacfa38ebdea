// Kernels at the sizes of the ConvNet (conv 1 -> 10 k5, pool, conv 10 -> 20 k5, pool, fc 320 -> 50
// -> 10), on the cores that one rank of two owns. The argument is the batch. Set OMP_NUM_THREADS=1
// and OPENBLAS_NUM_THREADS=1 for one core.
//
// items_per_second counts samples; FLOPS, if given, count 2 per multiply-add, without the work for
// a layout: the mathematical work, comparable with the core's peak.
#include <benchmark/benchmark.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>

namespace lockstep {
namespace {

/// Numbers of both signs without a pattern that branch prediction could learn.
Tensor noise(const Shape& shape) {
  Tensor t = Tensor::empty(shape);
  dropout_scale(0.5, {7, 0, 0, 0}, t.reshape({1, t.numel()}));
  const auto bits = t.to_vector<float>();
  std::vector<float> values(bits.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = (bits[i] - 1.0F) * (0.1F + static_cast<float>(i % 17) / 17.0F);
  }
  return Tensor::from(values, shape);
}

void count(benchmark::State& state, std::int64_t samples, double flop = 0.0) {
  state.SetItemsProcessed(state.iterations() * samples);
  if (flop > 0.0) {
    state.counters["FLOPS"] =
        benchmark::Counter(flop, benchmark::Counter::kIsIterationInvariantRate);
  }
}

struct Convolution {
  Tensor x, weight, bias, y, grad_x, grad_weight;
  double flop;

  Convolution(std::int64_t n, std::int64_t c, std::int64_t size, std::int64_t o, std::int64_t k)
      : x(noise({n, c, size, size})), weight(noise({o, c, k, k})), bias(noise({o})) {
    y = noise(conv2d_shape(x, weight, bias, {}));
    grad_x = Tensor::zeros(x.shape());
    grad_weight = Tensor::zeros(weight.shape());
    flop = 2.0 * static_cast<double>(y.numel() * c * k * k);
  }
};

Convolution conv1(std::int64_t n) { return {n, 1, 28, 10, 5}; }
Convolution conv2(std::int64_t n) { return {n, 10, 12, 20, 5}; }
Convolution resnet(std::int64_t n) { return {n, 64, 18, 64, 3}; }

template <Convolution (*make)(std::int64_t)>
void conv2d_forward_pass(benchmark::State& state) {
  const auto c = make(state.range(0));
  for (auto _ : state) conv2d_forward(c.x, c.weight, c.bias, {}, c.y);
  count(state, state.range(0), c.flop);
}
BENCHMARK(conv2d_forward_pass<conv1>)->Name("conv2d_forward/1to10")->Arg(64)->Arg(128);
BENCHMARK(conv2d_forward_pass<conv2>)->Name("conv2d_forward/10to20")->Arg(64)->Arg(128);
BENCHMARK(conv2d_forward_pass<resnet>)->Name("conv2d_forward/64to64")->Arg(32);

template <Convolution (*make)(std::int64_t)>
void conv2d_input_gradient(benchmark::State& state) {
  const auto c = make(state.range(0));
  for (auto _ : state) conv2d_backward_input(c.y, c.weight, {}, false, c.grad_x);
  count(state, state.range(0), c.flop);
}
BENCHMARK(conv2d_input_gradient<conv1>)->Name("conv2d_backward_input/1to10")->Arg(64)->Arg(128);
BENCHMARK(conv2d_input_gradient<conv2>)->Name("conv2d_backward_input/10to20")->Arg(64)->Arg(128);
BENCHMARK(conv2d_input_gradient<resnet>)->Name("conv2d_backward_input/64to64")->Arg(32);

template <Convolution (*make)(std::int64_t)>
void conv2d_weight_gradient(benchmark::State& state) {
  const auto c = make(state.range(0));
  for (auto _ : state) conv2d_backward_weight(c.y, c.x, {}, true, c.grad_weight);
  count(state, state.range(0), c.flop);
}
BENCHMARK(conv2d_weight_gradient<conv1>)->Name("conv2d_backward_weight/1to10")->Arg(64)->Arg(128);
BENCHMARK(conv2d_weight_gradient<conv2>)->Name("conv2d_backward_weight/10to20")->Arg(64)->Arg(128);
BENCHMARK(conv2d_weight_gradient<resnet>)->Name("conv2d_backward_weight/64to64")->Arg(32);

void conv2d_bias_gradient(benchmark::State& state) {
  const auto c = conv1(state.range(0));
  const Tensor grad_bias = Tensor::zeros(c.bias.shape());
  for (auto _ : state) conv2d_backward_bias(c.y, true, grad_bias);
  count(state, state.range(0));
}
BENCHMARK(conv2d_bias_gradient)->Name("conv2d_backward_bias/1to10")->Arg(64)->Arg(128);

void max_pool2d_forward_pass(benchmark::State& state) {
  const Tensor x = noise({state.range(0), 10, 24, 24});
  const Shape shape = max_pool2d_shape(x.shape(), {2, 2});
  const Tensor y = Tensor::empty(shape), indices = Tensor::empty(shape, DType::i32);
  for (auto _ : state) max_pool2d_forward(x, {2, 2}, y, indices);
  count(state, state.range(0));
}
BENCHMARK(max_pool2d_forward_pass)->Name("max_pool2d_forward/10x24x24")->Arg(64)->Arg(128);

void max_pool2d_backward_pass(benchmark::State& state) {
  const Tensor x = noise({state.range(0), 10, 24, 24});
  const Shape shape = max_pool2d_shape(x.shape(), {2, 2});
  const Tensor y = Tensor::empty(shape), indices = Tensor::empty(shape, DType::i32);
  max_pool2d_forward(x, {2, 2}, y, indices);
  for (auto _ : state) max_pool2d_backward(y, indices, {2, 2}, false, x);
  count(state, state.range(0));
}
BENCHMARK(max_pool2d_backward_pass)->Name("max_pool2d_backward/10x24x24")->Arg(64)->Arg(128);

/// Arguments: batch, in, out.
void linear_forward_pass(benchmark::State& state) {
  const std::int64_t n = state.range(0), in = state.range(1), out = state.range(2);
  const Tensor x = noise({n, in}), weight = noise({out, in}), bias = noise({out});
  const Tensor y = Tensor::empty({n, out});
  for (auto _ : state) linear_forward(x, weight, bias, y);
  count(state, n, 2.0 * static_cast<double>(n * in * out));
}
BENCHMARK(linear_forward_pass)->Name("linear_forward")->ArgsProduct({{64, 128}, {320}, {50}});
BENCHMARK(linear_forward_pass)->Name("linear_forward")->ArgsProduct({{64, 128}, {50}, {10}});

void linear_backward_pass(benchmark::State& state) {
  const std::int64_t n = state.range(0), in = state.range(1), out = state.range(2);
  const Tensor x = noise({n, in}), weight = noise({out, in}), grad_y = noise({n, out});
  const Tensor grad_x = Tensor::empty({n, in}), grad_weight = Tensor::zeros({out, in});
  const Tensor grad_bias = Tensor::zeros({out});
  for (auto _ : state) {
    linear_backward_bias(grad_y, true, grad_bias);
    linear_backward_weight(grad_y, x, true, grad_weight);
    linear_backward_input(grad_y, weight, false, grad_x);
  }
  count(state, n, 4.0 * static_cast<double>(n * in * out));
}
BENCHMARK(linear_backward_pass)->Name("linear_backward")->ArgsProduct({{64, 128}, {320}, {50}});
BENCHMARK(linear_backward_pass)->Name("linear_backward")->ArgsProduct({{64, 128}, {50}, {10}});

void relu_both(benchmark::State& state) {
  const Tensor x = noise({state.range(0), 1440}), y = Tensor::empty(x.shape());
  for (auto _ : state) {
    relu_forward(x, y);
    relu_backward(x, y, false, y);
  }
  count(state, state.range(0));
}
BENCHMARK(relu_both)->Name("relu_forward_backward/1440")->Arg(64)->Arg(128);

void dropout_mask(benchmark::State& state) {
  const Tensor scale = Tensor::empty({state.range(0), state.range(1)});
  for (auto _ : state) dropout_scale(0.5, {1, 2, 3, 4}, scale);
  count(state, state.range(0));
}
BENCHMARK(dropout_mask)->Name("dropout_scale")->ArgsProduct({{128}, {20, 50, 4096}});

void log_softmax_both(benchmark::State& state) {
  const Tensor x = noise({state.range(0), state.range(1)});
  const Tensor y = Tensor::empty(x.shape()), grad_x = Tensor::empty(x.shape());
  for (auto _ : state) {
    log_softmax_forward(x, 1, y);
    log_softmax_backward(x, y, 1, false, grad_x);
  }
  count(state, state.range(0));
}
BENCHMARK(log_softmax_both)->Name("log_softmax_forward_backward")->ArgsProduct({{128}, {10, 1000}});

template <Variable (*loss)(const Variable&, const Tensor&, const LossOptions&)>
void loss_both(benchmark::State& state) {
  const Variable x(noise({state.range(0), 10}), true);
  const Tensor target = Tensor::full({state.range(0)}, 3, DType::i64);
  for (auto _ : state) {
    x.zero_grad();
    loss(x, target, {}).backward();
  }
  count(state, state.range(0));
}
BENCHMARK(loss_both<nll_loss>)->Name("nll_loss_with_backward/10")->Arg(128);
BENCHMARK(loss_both<cross_entropy>)->Name("cross_entropy_with_backward/10")->Arg(128);

}  // namespace
}  // namespace lockstep
