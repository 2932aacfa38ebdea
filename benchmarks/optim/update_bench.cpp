// Optimizer updates on one core.
//
// adam/large: parameters far larger than the caches (64 MiB, f32). Each iteration times the update
// and then a plain loop over arrays of the same size with the same accesses: p, m, v read and
// written, g read. GB/s count each byte read and each byte written; `of_plain` is the update's GB/s
// relative to the plain loop's in the same run.
//
// step/...: a whole step() of a model's parameters, scattered in memory or neighbours, as
// `neighbours` = 0 or 1; its argument is the optimizer.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/sgd.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t elements = (std::int64_t{64} << 20) / 4;

std::vector<float> numbers(std::int64_t n) {
  std::vector<float> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.7F * static_cast<float>(i % 9973));
  return values;
}

void plain_loop(std::vector<float>& p, const std::vector<float>& g, std::vector<float>& m,
                std::vector<float>& v) {
  const std::size_t n = p.size();
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) {
    m[i] = 0.9F * m[i] + g[i];
    v[i] = 0.9F * v[i] - g[i];
    p[i] -= m[i] + v[i];
  }
  benchmark::DoNotOptimize(p.data());
  benchmark::ClobberMemory();
}

void adam_large(benchmark::State& state) {
  std::vector<float> p = numbers(elements), g = p, m = p, v = p;
  const Variable parameter(Tensor::from(p, {elements}), true);
  parameter.set_grad_buffer(Tensor::from(p, {elements}));
  parameter.mark_grad_present();
  optim::AdamW optimizer({{"p", parameter}}, {.weight_decay = 0.01});
  const auto adam = [&] { optimizer.step(); };
  adam();
  plain_loop(p, g, m, v);
  double ours = 0, plains = 0;
  for (auto _ : state) {
    const double one = bench::seconds_of(adam);
    ours += one;
    plains += bench::seconds_of([&] { plain_loop(p, g, m, v); });
    state.SetIterationTime(one);
  }
  const double bytes =
      static_cast<double>(parameter.data().bytes()) * 7 * static_cast<double>(state.iterations());
  state.counters["GB/s"] = bytes / ours * 1e-9;
  state.counters["plain_GB/s"] = bytes / plains * 1e-9;
  state.counters["of_plain"] = plains / ours;
}
BENCHMARK(adam_large)->Name("adam/large")->UseManualTime();

/// Numbered as in the established names of the benchmarks.
optim::OptimizerKind kind_of(std::int64_t number) {
  if (number == 1) return optim::AdamOptions();
  if (number == 4) return optim::LambOptions();
  return optim::SgdOptions{.momentum = 0.9};
}

/// Elements of each parameter, as the models have them.
std::vector<std::int64_t> convnet() { return {250, 10, 5000, 20, 16000, 50, 500, 10}; }
std::vector<std::int64_t> resnet18() {
  std::vector<std::int64_t> sizes{1728, 64, 64};
  std::int64_t in = 64;
  for (const std::int64_t out : {64, 128, 256, 512}) {
    for (int block = 0; block < 2; ++block) {
      sizes.insert(sizes.end(), {in * out * 9, out, out, out * out * 9, out, out});
      if (in != out) sizes.insert(sizes.end(), {in * out, out, out});
      in = out;
    }
  }
  sizes.insert(sizes.end(), {5120, 10});
  return sizes;
}

/// A deep model of narrow layers.
std::vector<std::int64_t> thousand_small() { return std::vector<std::int64_t>(1000, 64); }

template <std::vector<std::int64_t> (*model)()>
void whole_step(benchmark::State& state) {
  const bool neighbours = state.range(1) != 0;
  std::vector<nn::NamedParameter> parameters;
  std::int64_t total = 0;
  for (const auto n : model()) total += n;
  const Tensor data = Tensor::zeros({total}), grads = Tensor::zeros({total});
  std::int64_t at = 0;
  for (const auto n : model()) {
    const Variable v(neighbours ? data.slice(at, at + n) : Tensor::zeros({n}), true);
    v.set_grad_buffer(neighbours ? grads.slice(at, at + n) : Tensor::zeros({n}));
    v.mark_grad_present();
    parameters.push_back({std::string("p").append(std::to_string(at)), v});
    at += n;
  }
  const auto optimizer = optim::make_optimizer({.kind = kind_of(state.range(0))}, parameters);
  for (auto _ : state) optimizer->step();
  state.counters["parameters"] = static_cast<double>(total);
}
void every_kind(benchmark::internal::Benchmark* b) {
  b->ArgNames({"kind", "neighbours"});
  for (const int kind : {0, 1, 4}) {
    for (const int neighbours : {0, 1}) b->Args({kind, neighbours});
  }
}
BENCHMARK(whole_step<convnet>)->Name("step/convnet")->Apply(every_kind);
BENCHMARK(whole_step<resnet18>)->Name("step/resnet18")->Apply(every_kind);
BENCHMARK(whole_step<thousand_small>)->Name("step/thousand_small")->Apply(every_kind);

}  // namespace
}  // namespace lockstep
