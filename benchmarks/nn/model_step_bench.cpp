// A training step of a bundled model on one thread: forward, loss, backward and SGD on one fixed
// batch of random numbers. benchmarks/pytorch/model_step.py is its counterpart,
// benchmarks/compare_models.sh runs both.
//   build/release/benchmarks/nn/nn.model_step_bench MODEL BATCH [SECONDS]
//   build/release/benchmarks/nn/nn.model_step_bench peak
//
// Prints one line: samples/s by the median step, parameters, floating-point operations per sample
// and step, the memory by which the process grew at its peak. "peak" prints the core's f32
// operations per second. With PRECISION=bf16 in the environment products and convolutions use bf16.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/describe.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/tensor/kernels/simd.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

/// A line of /proc/self/status in MiB.
double memory_mib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string key; status >> key;) {
    double kib = 0;
    if (key == name + ":" && status >> kib) return kib / 1024;
    status.ignore(1 << 10, '\n');
  }
  throw Error("/proc/self/status has no line " + name);
}

/// Resets VmHWM: the peak from now on.
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << 5; }

/// Multiply-adds in enough registers to hide their latency, two operations each.
double peak_flops() {
  constexpr int accumulators = simd::registers - 4;
  double best = 0;
  for (int round = 0; round < 200; ++round) {  // a millisecond each: some run undisturbed
    simd::Floats sums[accumulators];
    for (int a = 0; a < accumulators; ++a) sums[a] = simd::broadcast(static_cast<float>(a));
    simd::Floats x = simd::broadcast(0.999F), y = simd::broadcast(1e-3F);
    constexpr std::int64_t repeats = 250'000;
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < repeats; ++i) {
#pragma GCC unroll 32
      for (int a = 0; a < accumulators; ++a) sums[a] = sums[a] * x + y;
    }
    const double seconds = seconds_since(start);
    float total = 0;
    for (const auto& sum : sums) total += simd::sum(sum);
    if (total == 0.5F) std::puts("");  // so that the loop is not optimised away
    best = std::max(best, 2.0 * repeats * accumulators * simd::width / seconds);
  }
  return best;
}

struct Problem {
  nn::ModelOptions options;
  Shape sample;
};

Problem problem_of(const std::string& model) {
  const bool colours = model == "resnet18";
  return {{.kind = nn::ModelKind::named(model)}, colours ? Shape{3, 32, 32} : Shape{1, 28, 28}};
}

/// Forward, and the same again for the gradients of the weights and of the inputs; the first
/// layer's input needs none.
double step_flops_a_sample(nn::Module& model, const Shape& sample) {
  double total = 0, first = 0;
  for (const auto& layer : nn::describe_layers(model, sample)) {
    if (first == 0) first = static_cast<double>(layer.flops);
    total += static_cast<double>(layer.flops);
  }
  return 3 * total - first;
}

struct Result {
  double samples_per_s, loss;
};

Result train(nn::Module& model, const Shape& sample, std::int64_t batch, double seconds) {
  optim::SGD sgd(model.named_parameters(), {.lr = 1e-3, .momentum = 0.9});
  const Variable x(nn::normal({batch, sample[0], sample[1], sample[2]}, 1.0));
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < batch; ++i) classes.push_back(i % 10);
  const Tensor target = Tensor::from(classes, {batch});

  const Autocast autocast(bench::precision_of_environment());
  std::vector<double> times;
  const auto start = Clock::now();
  Variable loss;
  while (times.size() < 5 || seconds_since(start) < seconds) {
    times.push_back(bench::seconds_of([&] {
      sgd.zero_grad();
      loss = nll_loss(model(x), target);
      loss.backward();
      sgd.step();
    }));
  }
  times.erase(times.begin(), times.begin() + 2);  // first touch of memory, primitives made
  return {static_cast<double>(batch) / bench::median(times), loss.item()};
}

void measure(const std::string& name, std::int64_t batch, double seconds) {
  set_math_threads(1);
  const Problem problem = problem_of(name);
  nn::manual_seed(1);
  // The libraries' code, loaded at first use, is not a step's memory.
  train(*nn::convnet({1, 28, 28}, 10), {1, 28, 28}, 10, 0.0);
  const double before = memory_mib("VmRSS");
  reset_peak_memory();
  const auto model = nn::make_model(problem.options, problem.sample, 10);
  const Result result = train(*model, problem.sample, batch, seconds);
  const double growth = memory_mib("VmHWM") - before;
  std::printf("samples/s %.1f parameters %lld flop %.0f memory_mib %.1f loss %.4f\n",
              result.samples_per_s, static_cast<long long>(model->parameter_count()),
              step_flops_a_sample(*model, problem.sample), growth, result.loss);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::string model = argc > 1 ? argv[1] : "";
  try {
    if (model == "peak") {
      std::printf("flops %.4g\n", lockstep::peak_flops());
    } else if (argc > 2) {
      lockstep::measure(model, std::atoll(argv[2]), argc > 3 ? std::atof(argv[3]) : 3.0);
    } else {
      std::fputs("usage: nn.model_step_bench MODEL BATCH [SECONDS] | peak\n", stderr);
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
