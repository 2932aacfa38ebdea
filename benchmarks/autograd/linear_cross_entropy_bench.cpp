// The loss of a vocabulary's logits, forward and backward, on one thread: gradients in forward, and
// in backward from logits that are computed once more.
//   build/release/benchmarks/autograd/autograd.linear_cross_entropy_bench [SECONDS]
//
// Prints a line per case: rows, width and classes, milliseconds of each way (the smallest of many
// calls in turn within SECONDS, 10, three at least), their ratio, and MiB at the peak of each
// beside the inputs and the parameter's gradient.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/storage.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

Tensor noise(const Shape& shape) {
  PhiloxSequence random(static_cast<std::uint64_t>(shape.numel()), 0);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(2.0 * random.uniform() - 1.0);
  return Tensor::from(values, shape);
}

Tensor classes_of(std::int64_t rows, std::int64_t classes) {
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(rows));
  for (std::size_t r = 0; r < chosen.size(); ++r)
    chosen[r] = static_cast<std::int64_t>(r) * 7919 % classes;
  return Tensor::from(chosen, {rows});
}

struct Way {
  LossGradients when;
  double seconds = 1e30, mib = 0;
};

void measure(std::int64_t rows, std::int64_t width, std::int64_t classes, Precision precision,
             double seconds) {
  const Variable x(noise({rows, width}), true), weight(noise({classes, width}), true);
  const Tensor target = classes_of(rows, classes);
  Way ways[] = {{LossGradients::in_forward}, {LossGradients::in_backward}};
  const auto step = [&](LossGradients when) {
    Variable loss;
    {
      const Autocast autocast(precision);
      loss = linear_cross_entropy(x, weight, target, {}, when);
    }
    loss.backward();
  };
  step(LossGradients::in_forward);  // makes the leaves' gradients
  const auto begin = Clock::now();
  for (int calls = 0; calls < 3 || seconds_since(begin) < seconds; ++calls) {
    for (Way& way : ways) {
      // Blocks are rounded up: each tensor that is to raise the peak does so once.
      const MemoryStats before = memory_stats();
      const Tensor up_to_the_peak =
          Tensor::empty({calls == 1 ? before.peak_in_use - before.in_use : 0}, DType::u8);
      const std::int64_t in_use = memory_stats().in_use;
      way.seconds = std::min(way.seconds, bench::seconds_of([&] { step(way.when); }));
      if (calls == 1)
        way.mib = static_cast<double>(memory_stats().peak_in_use - in_use) / (1 << 20);
    }
  }
  std::printf("%5lld x %4lld, %5lld classes, %s %9.1f %9.1f  %.2f  %7.1f %7.1f\n",
              static_cast<long long>(rows), static_cast<long long>(width),
              static_cast<long long>(classes), precision == Precision::f32 ? "f32 " : "bf16",
              1e3 * ways[0].seconds, 1e3 * ways[1].seconds, ways[1].seconds / ways[0].seconds,
              ways[0].mib, ways[1].mib);
}

int run(double seconds) {
  const MathThreadsGuard one_thread(1);
  std::printf("%-32s %9s %9s  %s  %s\n", "loss", "forward", "backward", "x",
              "MiB forward, backward");
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    measure(2048, 768, 50257, precision, seconds);
    measure(4096, 384, 256, precision, seconds);
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::run(argc > 1 ? std::atof(argv[1]) : 10.0); }
