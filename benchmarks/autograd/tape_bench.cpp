// The cost of the tape itself: operations on a single number, so that kernels hardly count. The
// argument is the number of operations; items are operations, each recorded and differentiated.
#include <benchmark/benchmark.h>

#include <lockstep/autograd/functional/arithmetic.hpp>

namespace lockstep {
namespace {

/// y = x + 1 + 1 ...: one input each; gradients are passed on without a copy.
void chain(benchmark::State& state) {
  const Variable x(Tensor::zeros({1}), true);
  for (auto _ : state) {
    Variable y = x;
    for (std::int64_t i = 0; i < state.range(0); ++i) y = add(y, 1.0);
    y.backward();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(chain)->Arg(10)->Arg(1000);

/// y = x * x + x ...: two inputs each, every result used twice.
void shared(benchmark::State& state) {
  const Variable x(Tensor::zeros({1}), true);
  for (auto _ : state) {
    Variable y = x;
    for (std::int64_t i = 0; i < state.range(0); ++i) y = mul(y, y);
    y.backward();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(shared)->Arg(10)->Arg(1000);

}  // namespace
}  // namespace lockstep
