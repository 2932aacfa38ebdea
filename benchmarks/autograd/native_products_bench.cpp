// Products and attention of bf16 variables, forward and backward, on one thread: as they are, and
// by way of copies in f32 whose products round the operands again, as Operands do it.
//   build/release/benchmarks/autograd/autograd.native_products_bench [SECONDS]
//
// Prints one line per operation: its name, microseconds of each way (the smallest of many calls in
// turn within SECONDS, 1), their ratio, and MiB at the peak of each beside the inputs.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/storage.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

using Inputs = std::vector<Variable>;

/// Uniform in [-1, 1), as a result of another operation or as a parameter.
Variable noise(const Shape& shape, bool is_parameter) {
  PhiloxSequence random(static_cast<std::uint64_t>(shape.numel()), 0);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(2.0 * random.uniform() - 1.0);
  const Tensor numbers = Tensor::from(values, shape).to(DType::bf16);
  const Variable leaf(numbers, true);
  return is_parameter ? leaf : leaf * 1.0;
}

struct Way {
  std::function<Variable(const Inputs&)> apply;
  double seconds = 1e30, mib = 0;
};

void measure(const char* name, const Inputs& inputs, const Way& native, double seconds) {
  const auto by_copies = [&native](const Inputs& given) {
    const Autocast as_operands(Precision::bf16);
    Inputs copies;
    for (const Variable& x : given) copies.push_back(to(x, DType::f32));
    return to(native.apply(copies), DType::bf16);
  };
  Way ways[] = {native, {by_copies}};
  Tensor gradient;
  const auto begin = Clock::now();
  for (int calls = 0; calls < 5 || seconds_since(begin) < seconds; ++calls) {
    for (Way& way : ways) {
      for (const Variable& x : inputs) {
        if (x.is_leaf()) x.zero_grad();
      }
      const MemoryStats before = memory_stats();
      // Once: blocks are rounded up, so that each such tensor raises the peak.
      const bool measures_memory = calls == 1;
      const Tensor up_to_the_peak =
          Tensor::empty({measures_memory ? before.peak_in_use - before.in_use : 0}, DType::u8);
      const std::int64_t in_use = memory_stats().in_use;
      way.seconds = std::min(way.seconds, bench::seconds_of([&] {
                               const Variable y = way.apply(inputs);
                               if (!gradient.defined()) {
                                 gradient = Tensor::full(y.shape(), 1.0, DType::bf16);
                               }
                               backward(std::span(&y, 1), std::span(&gradient, 1),
                                        {.retain_graph = true});  // that of the inputs
                             }));
      if (measures_memory)
        way.mib = static_cast<double>(memory_stats().peak_in_use - in_use) / (1 << 20);
    }
  }
  std::printf("%-28s %9.0f %9.0f  %.2f  %7.1f %7.1f\n", name, 1e6 * ways[0].seconds,
              1e6 * ways[1].seconds, ways[1].seconds / ways[0].seconds, ways[0].mib, ways[1].mib);
}

int run(double seconds) {
  const MathThreadsGuard one_thread(1);
  std::printf("%-28s %9s %9s  %s  %s\n", "operation", "native us", "copies us", "x",
              "MiB native, copies");
  const auto activation = [](const Shape& shape) { return noise(shape, false); };
  const auto parameter = [](const Shape& shape) { return noise(shape, true); };
  const Way apply_linear{[](const Inputs& v) { return linear(v[0], v[1], v[2]); }};
  measure("linear 1024 x 768 -> 768",
          {activation({1024, 768}), parameter({768, 768}), parameter({768})}, apply_linear,
          seconds);
  measure("linear 1024 x 768 -> 3072",
          {activation({1024, 768}), parameter({3072, 768}), parameter({3072})}, apply_linear,
          seconds);
  measure("matmul 12 x 256 x 64 x 256", {activation({12, 256, 64}), activation({12, 64, 256})},
          {[](const Inputs& v) { return matmul(v[0], v[1]); }}, seconds);
  AttentionOptions causal;
  causal.causal = true;
  measure("self_attention 1 x 1024 x 768", {activation({1, 1024, 3 * 768})},
          {[&](const Inputs& v) { return self_attention(v[0], 12, causal); }}, seconds);
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::run(argc > 1 ? std::atof(argv[1]) : 1.0); }
