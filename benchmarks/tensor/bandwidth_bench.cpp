// Memory-bound kernels, on tensors far larger than the caches (64 MiB each, f32), on one core:
// their share of the memory bandwidth.
//
// Each iteration times the kernel and then a plain loop over as many tensors of the same size (z[i]
// = a x[i] + y[i] for two read and one written). GB/s count the bytes that must be read and written
// once, in the fastest iteration; `of_plain` is the kernel's GB/s relative to the plain loop's in
// the same run. Row-wide parameters and per-row numbers are not counted, nor are the sums over rows
// for parameters in the norms' backward passes: the plain loop beside these only reads grad_y and x
// and writes grad_x.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <vector>

#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/norm/norm.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t elements = (std::int64_t{64} << 20) / 4;

/// About `elements` numbers in rows of this width, in [-4, 4].
Tensor numbers(std::int64_t width, double phase) {
  const std::int64_t rows = (elements + width - 1) / width;
  std::vector<float> values(static_cast<std::size_t>(rows * width));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(4.0 * std::sin(0.7 * static_cast<double>(i % 9973) + phase));
  }
  return Tensor::from(values, {rows, width});
}

/// Arrays as a plain loop sees them: read ones, then written ones.
struct Plain {
  std::vector<float> a, b, target;
  bool two_read;

  Plain(std::size_t n, bool two) : a(n, 1.0F), target(n, 0.0F), two_read(two) {
    if (two) b.assign(n, 2.0F);
  }
  void operator()() {
    const std::size_t n = a.size();
    if (two_read) {
      for (std::size_t i = 0; i < n; ++i) target[i] = 0.5F * a[i] + b[i];
    } else {
      for (std::size_t i = 0; i < n; ++i) target[i] = 0.5F * a[i];
    }
    benchmark::DoNotOptimize(target.data());
    benchmark::ClobberMemory();
  }
};

/// CPU time of this thread: other load on the machine costs it bandwidth, but no time.
template <class F>
double seconds(const F& f) {
  const auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  f();
  return now() - start;
}

/// `kernel` reads one or two tensors of the size of `like` and writes one.
template <class F>
void compare(benchmark::State& state, const Tensor& like, bool two_read, const F& kernel) {
  Plain plain(static_cast<std::size_t>(like.numel()), two_read);
  plain();
  kernel();
  double ours = std::numeric_limits<double>::infinity(), plains = ours;
  for (auto _ : state) {
    const double one = seconds(kernel);
    state.SetIterationTime(one);
    ours = std::min(ours, one);
    plains = std::min(plains, seconds([&] { plain(); }));
  }
  const double bytes = static_cast<double>(like.bytes()) * (two_read ? 3 : 2);
  state.counters["GB/s"] = bytes / ours * 1e-9;
  state.counters["plain_GB/s"] = bytes / plains * 1e-9;
  state.counters["of_plain"] = plains / ours;
}

/// A row's parameters and the numbers that the forward keeps.
struct Norm {
  Tensor x, grad_y, y, weight, bias, mean, inverse;
  explicit Norm(std::int64_t width)
      : x(numbers(width, 0.0)),
        grad_y(numbers(width, 1.0)),
        y(Tensor::zeros(x.shape())),
        weight(Tensor::full({width}, 1.5)),
        bias(Tensor::full({width}, 0.5)),
        mean(Tensor::zeros({x.size(0)})),
        inverse(Tensor::zeros({x.size(0)})) {}
};

void layer_norm_forward_pass(benchmark::State& state) {
  const Norm n(state.range(0));
  compare(state, n.x, false,
          [&] { layer_norm_forward(n.x, n.weight, n.bias, 1e-5, n.y, n.mean, n.inverse); });
}

void layer_norm_backward_pass(benchmark::State& state) {
  const Norm n(state.range(0));
  layer_norm_forward(n.x, n.weight, n.bias, 1e-5, n.y, n.mean, n.inverse);
  const NormGradients gradients{n.y, Tensor::zeros(n.weight.shape()),
                                Tensor::zeros(n.weight.shape())};
  compare(state, n.x, true,
          [&] { layer_norm_backward(n.grad_y, n.x, n.weight, n.mean, n.inverse, gradients); });
}

void rms_norm_forward_pass(benchmark::State& state) {
  const Norm n(state.range(0));
  compare(state, n.x, false, [&] { rms_norm_forward(n.x, n.weight, 1e-6, n.y, n.inverse); });
}

void rms_norm_backward_pass(benchmark::State& state) {
  const Norm n(state.range(0));
  rms_norm_forward(n.x, n.weight, 1e-6, n.y, n.inverse);
  const NormGradients gradients{n.y, Tensor::zeros(n.weight.shape()), {}};
  compare(state, n.x, true,
          [&] { rms_norm_backward(n.grad_y, n.x, n.weight, n.inverse, gradients); });
}

void softmax_forward_pass(benchmark::State& state) {
  const Tensor x = numbers(state.range(0), 0.0), y = Tensor::zeros(x.shape());
  compare(state, x, false, [&] { softmax_forward(x, -1, y); });
}

void softmax_backward_pass(benchmark::State& state) {
  const Tensor x = numbers(state.range(0), 0.0), y = Tensor::zeros(x.shape());
  const Tensor grad_x = Tensor::zeros(x.shape());
  softmax_forward(x, -1, y);
  compare(state, x, true, [&] { softmax_backward(x, y, -1, false, grad_x); });
}

void log_softmax_forward_pass(benchmark::State& state) {
  const Tensor x = numbers(state.range(0), 0.0), y = Tensor::zeros(x.shape());
  compare(state, x, false, [&] { log_softmax_forward(x, -1, y); });
}

void log_softmax_backward_pass(benchmark::State& state) {
  const Tensor x = numbers(state.range(0), 0.0), y = Tensor::zeros(x.shape());
  const Tensor grad_x = Tensor::zeros(x.shape());
  log_softmax_forward(x, -1, y);
  compare(state, x, true, [&] { log_softmax_backward(x, y, -1, false, grad_x); });
}

template <Gelu approximation>
void gelu_forward_pass(benchmark::State& state) {
  const Tensor x = numbers(4096, 0.0), y = Tensor::zeros(x.shape());
  compare(state, x, false, [&] { gelu_forward(x, approximation, y); });
}

template <Gelu approximation>
void gelu_backward_pass(benchmark::State& state) {
  const Tensor x = numbers(4096, 0.0), grad_y = numbers(4096, 1.0);
  const Tensor grad_x = Tensor::zeros(x.shape());
  compare(state, x, true, [&] { gelu_backward(grad_y, x, approximation, false, grad_x); });
}

void in_milliseconds(benchmark::internal::Benchmark* b) {
  b->UseManualTime()->Unit(benchmark::kMillisecond);
}

/// Rows of a small transformer, of a larger one, and of its vocabulary.
void of_widths(benchmark::internal::Benchmark* b) {
  in_milliseconds(b->Arg(192)->Arg(1024)->Arg(4096));
}

BENCHMARK(layer_norm_forward_pass)->Name("layer_norm_forward")->Apply(of_widths);
BENCHMARK(layer_norm_backward_pass)->Name("layer_norm_backward")->Apply(of_widths);
BENCHMARK(rms_norm_forward_pass)->Name("rms_norm_forward")->Apply(of_widths);
BENCHMARK(rms_norm_backward_pass)->Name("rms_norm_backward")->Apply(of_widths);
BENCHMARK(softmax_forward_pass)->Name("softmax_forward")->Apply(of_widths);
BENCHMARK(softmax_backward_pass)->Name("softmax_backward")->Apply(of_widths);
BENCHMARK(log_softmax_forward_pass)->Name("log_softmax_forward")->Apply(of_widths);
BENCHMARK(log_softmax_backward_pass)->Name("log_softmax_backward")->Apply(of_widths);
BENCHMARK(gelu_forward_pass<Gelu::exact>)->Name("gelu_forward/exact")->Apply(in_milliseconds);
BENCHMARK(gelu_backward_pass<Gelu::exact>)->Name("gelu_backward/exact")->Apply(in_milliseconds);
BENCHMARK(gelu_forward_pass<Gelu::tanh>)->Name("gelu_forward/tanh")->Apply(in_milliseconds);
BENCHMARK(gelu_backward_pass<Gelu::tanh>)->Name("gelu_backward/tanh")->Apply(in_milliseconds);

}  // namespace
}  // namespace lockstep
