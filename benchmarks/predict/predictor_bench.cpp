// Predictions of fully connected networks: Predictor, and the module itself (oneDNN's products)
// beside it. The first network is that of docs/reference/performance.md. One thread:
// OMP_NUM_THREADS=1.
#include <benchmark/benchmark.h>

#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/predict/predictor.hpp>

namespace {

using namespace lockstep;

struct Network {
  std::int64_t in, out;
  std::vector<std::int64_t> hidden;
};
const Network networks[] = {{32, 8, {64, 64}},
                            {128, 128, {128, 128}},
                            {256, 256, {256, 256}},
                            {512, 512, {512, 512}},
                            {784, 10, {512, 256}}};

void report(benchmark::State& state, const Network& network, std::int64_t batch) {
  double flops = 0;
  std::int64_t in = network.in;
  for (const auto width : network.hidden) {
    flops += 2.0 * static_cast<double>(in * width);
    in = width;
  }
  flops += 2.0 * static_cast<double>(in * network.out);
  state.SetItemsProcessed(state.iterations() * batch);
  state.counters["GFLOP/s"] = benchmark::Counter(
      flops * static_cast<double>(batch * state.iterations()) / 1e9, benchmark::Counter::kIsRate);
}

void predictor(benchmark::State& state) {
  const Network& network = networks[state.range(0)];
  const std::int64_t batch = state.range(1);
  const Predictor predictor(nn::mlp({network.in}, network.out, network.hidden, nn::Head::linear),
                            {.input = {.name = "x", .shape = {network.in}},
                             .output = {.name = "y", .shape = {network.out}}});
  const std::vector<float> input(static_cast<std::size_t>(batch * network.in), 0.5F);
  std::vector<float> output(static_cast<std::size_t>(batch * network.out));
  for (auto _ : state) {
    predictor.predict(input, output);
    benchmark::DoNotOptimize(output.data());
  }
  report(state, network, batch);
}

void module(benchmark::State& state) {
  const Network& network = networks[state.range(0)];
  const std::int64_t batch = state.range(1);
  const auto model = nn::mlp({network.in}, network.out, network.hidden, nn::Head::linear);
  model->eval();
  const NoGradGuard no_grad;
  const Variable x(Tensor::full({batch, network.in}, 0.5));
  for (auto _ : state) benchmark::DoNotOptimize(model->forward(x).data().data());
  report(state, network, batch);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (std::int64_t network = 0; network < std::ssize(networks); ++network) {
    for (const std::int64_t batch : {1, 16, 128, 1024, 16384}) {
      if (network == 0 || batch <= 1024) benchmark->Args({network, batch});
    }
  }
  benchmark->Unit(benchmark::kMicrosecond);
}
BENCHMARK(predictor)->Apply(sizes);
BENCHMARK(module)->Apply(sizes);

}  // namespace
