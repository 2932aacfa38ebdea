// A step of the LSTM of PyTorch's model-parallel RNN tutorial (2 layers of 200, 35 steps, batch 20,
// f32): forward and backward with gradients of the input and of all parameters, on one thread.
// FLOPS counts 2 operations per multiply-add of the products. PyTorch took 26.9 ms for the same on
// one core of 190 GFLOP/s ("nn.model_step_bench peak").
#include <benchmark/benchmark.h>

#include <array>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/recurrent.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t layers = 2, width = 200, steps = 35, batch = 20;

template <class Layer>
void step(benchmark::State& state, bool backwards, double gates) {
  set_math_threads(1);
  nn::manual_seed(1);
  Layer layer(width, width, {.num_layers = layers});
  const Variable x(nn::uniform({steps, batch, width}, 1.0), true);
  const std::array<Tensor, 1> upstream{nn::uniform({steps, batch, width}, 1.0)};
  for (auto _ : state) {
    const std::array<Variable, 1> roots{layer(x)};
    if (!backwards) continue;
    backward(roots, upstream);
    layer.zero_grad();
    x.zero_grad();
  }
  const double products = 2.0 * layers * steps * batch * gates * width * 2 * width;
  state.counters["FLOPS"] = benchmark::Counter(products * (backwards ? 3 : 1),
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void lstm_forward(benchmark::State& state) { step<nn::LSTM>(state, false, 4); }
void lstm_step(benchmark::State& state) { step<nn::LSTM>(state, true, 4); }
void gru_step(benchmark::State& state) { step<nn::GRU>(state, true, 3); }
void rnn_step(benchmark::State& state) { step<nn::RNN>(state, true, 1); }
BENCHMARK(lstm_forward)->Unit(benchmark::kMillisecond);
BENCHMARK(lstm_step)->Unit(benchmark::kMillisecond);
BENCHMARK(gru_step)->Unit(benchmark::kMillisecond);
BENCHMARK(rnn_step)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace lockstep
