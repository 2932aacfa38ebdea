// Single operations, forward and backward, on one thread, with sizes of real networks.
// benchmarks/pytorch/operations.py is its counterpart; benchmarks/compare_operations.sh runs both.
//   build/release/benchmarks/autograd/autograd.operations_bench [SECONDS]
//
// Prints one line per operation: its name, microseconds of the forward (which records) and of the
// backward, the smallest of many calls within SECONDS (0.1).
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adamax.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <support/timing.hpp>

namespace lockstep {
namespace {

using Inputs = std::vector<Variable>;

/// Uniform in [low, low + 2), f32.
Tensor noise(const Shape& shape, double low = -1.0) {
  PhiloxSequence random(static_cast<std::uint64_t>(shape.numel()), 0);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = static_cast<float>(low + 2.0 * random.uniform());
  return Tensor::from(values, shape);
}

void measure(const char* name, const std::vector<Shape>& shapes,
             const std::function<Variable(const Inputs&)>& f, double seconds, double low = -1.0) {
  Inputs inputs;
  for (const auto& shape : shapes) inputs.emplace_back(noise(shape, low), true);
  double forward = 1e30, backward_time = 1e30;
  Tensor gradient;
  const auto begin = Clock::now();
  for (int calls = 0; calls < 5 || seconds_since(begin) < seconds; ++calls) {
    for (const auto& input : inputs) input.zero_grad();
    Variable y;
    forward = std::min(forward, bench::seconds_of([&] { y = f(inputs); }));
    if (!gradient.defined()) gradient = Tensor::full(y.shape(), 1.0);
    backward_time =
        std::min(backward_time,
                 bench::seconds_of([&] { backward(std::span(&y, 1), std::span(&gradient, 1)); }));
  }
  std::printf("%s %.1f %.1f\n", name, 1e6 * forward, 1e6 * backward_time);
}

void measure_optimizer(const char* name, const optim::OptimizerOptions& options, double seconds) {
  const Variable w(noise({1 << 20}), true);
  const auto optimizer = optim::make_optimizer(options, {{"w", w}});
  w.grad_buffer().copy_from(noise({1 << 20}, -0.9));
  w.mark_grad_present();
  const double best = bench::fastest(
      seconds, [&] { optimizer->step(); }, 5);
  std::printf("%s %.1f 0.0\n", name, 1e6 * best);
}

void run(double s) {
  const Shape plane{64, 4096};
  const auto element = [&](const char* name, Variable (*f)(const Variable&), double low = -1.0) {
    measure(
        name, {plane}, [f](const Inputs& v) { return f(v[0]); }, s, low);
  };
  element("abs", abs);
  element("exp", exp);
  element("log", log, 0.1);
  element("sqrt", sqrt, 0.1);
  element("rsqrt", rsqrt, 0.1);
  element("sin", sin);
  element("cos", cos);
  element("pow_3", [](const Variable& x) { return pow(x, 3.0); });
  element(
      "pow_1.7", [](const Variable& x) { return pow(x, 1.7); }, 0.1);
  element("clamp", [](const Variable& x) { return clamp(x, -0.5, 0.5); });
  element("leaky_relu", [](const Variable& x) { return leaky_relu(x); });
  element("elu", [](const Variable& x) { return elu(x); });
  element("selu", selu);
  element("softplus", [](const Variable& x) { return softplus(x); });
  element("softsign", softsign);
  element("relu6", relu6);
  element("hardsigmoid", hardsigmoid);
  element("hardswish", hardswish);
  element("mish", mish);
  element("logsigmoid", logsigmoid);
  element("glu", [](const Variable& x) { return glu(x); });
  measure(
      "prelu", {{64, 64, 64}, {64}}, [](const Inputs& v) { return prelu(v[0], v[1]); }, s);
  const Tensor which = noise(plane).to(DType::i32).to(DType::boolean);
  measure(
      "where", {plane, plane}, [&](const Inputs& v) { return where(which, v[0], v[1]); }, s);
  element("cumsum", [](const Variable& x) { return cumsum(x, 1); });
  element("sort", [](const Variable& x) { return sort(x).values; });
  element("topk", [](const Variable& x) { return topk(x, 10).values; });

  const Tensor target = noise(plane), share = noise(plane, 0.0);
  const auto loss = [&](const char* name, const std::function<Variable(const Variable&)>& f) {
    measure(
        name, {plane}, [&](const Inputs& v) { return f(v[0]); }, s);
  };
  loss("l1_loss", [&](const Variable& x) { return l1_loss(x, target); });
  loss("smooth_l1_loss", [&](const Variable& x) { return smooth_l1_loss(x, target); });
  loss("huber_loss", [&](const Variable& x) { return huber_loss(x, target); });
  loss("kl_div", [&](const Variable& x) { return kl_div(x, share, KlDivReduction::batchmean); });
  loss("poisson_nll_loss", [&](const Variable& x) { return poisson_nll_loss(x, share); });
  measure(
      "gaussian_nll_loss", {plane, plane},
      [&](const Inputs& v) { return gaussian_nll_loss(v[0], target, v[1]); }, s, 0.1);
  measure(
      "triplet_margin_loss", {{512, 256}, {512, 256}, {512, 256}},
      [](const Inputs& v) { return triplet_margin_loss(v[0], v[1], v[2]); }, s);
  const Tensor alike = Tensor::full({512}, 1.0, DType::i64);
  measure(
      "cosine_embedding_loss", {{512, 256}, {512, 256}},
      [&](const Inputs& v) { return cosine_embedding_loss(v[0], v[1], alike); }, s);
  std::vector<std::int64_t> labels(16 * 20);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(1 + i % 31);
  const Tensor targets = Tensor::from(labels, {16, 20});
  const Tensor frames = Tensor::full({16}, 100, DType::i64),
               lengths = Tensor::full({16}, 20, DType::i64);
  measure(
      "ctc_loss", {{100, 16, 32}},
      [&](const Inputs& v) { return ctc_loss(log_softmax(v[0], 2), targets, frames, lengths); }, s);

  const Shape image{16, 64, 32, 32};
  measure(
      "group_norm", {image, {64}, {64}},
      [](const Inputs& v) { return group_norm(v[0], 8, v[1], v[2]); }, s);
  measure(
      "instance_norm", {image, {64}, {64}},
      [](const Inputs& v) { return instance_norm(v[0], v[1], v[2]); }, s);
  measure(
      "local_response_norm", {image}, [](const Inputs& v) { return local_response_norm(v[0], 5); },
      s);
  const auto padded = [&](const char* name, PadMode mode) {
    measure(
        name, {image},
        [mode](const Inputs& v) {
          return pad(v[0], {1, 1, 1, 1}, mode);
        },
        s);
  };
  padded("pad_constant", PadMode::constant);
  padded("pad_reflect", PadMode::reflect);
  padded("pad_replicate", PadMode::replicate);
  padded("pad_circular", PadMode::circular);
  measure(
      "pixel_shuffle", {image}, [](const Inputs& v) { return pixel_shuffle(v[0], 2); }, s);
  measure(
      "upsample_nearest", {image}, [](const Inputs& v) { return interpolate_by(v[0], {2.0}); }, s);
  measure(
      "upsample_bilinear", {image},
      [](const Inputs& v) { return interpolate_by(v[0], {2.0}, Interpolation::bilinear); }, s);

  measure(
      "conv1d", {{32, 64, 256}, {64, 64, 3}, {64}},
      [](const Inputs& v) { return conv1d(v[0], v[1], v[2], {.padding = 1}); }, s);
  measure(
      "conv3d", {{4, 16, 16, 24, 24}, {32, 16, 3, 3, 3}, {32}},
      [](const Inputs& v) { return conv3d(v[0], v[1], v[2], {.padding = 1}); }, s);
  measure(
      "conv_transpose1d", {{32, 64, 128}, {64, 32, 4}, {32}},
      [](const Inputs& v) {
        return conv_transpose1d(v[0], v[1], v[2], {.stride = 2, .padding = 1});
      },
      s);
  measure(
      "conv_transpose2d", {{16, 64, 16, 16}, {64, 32, 2, 2}, {32}},
      [](const Inputs& v) { return conv_transpose2d(v[0], v[1], v[2], {.stride = 2}); }, s);
  measure(
      "conv_transpose3d", {{4, 32, 8, 8, 8}, {32, 16, 2, 2, 2}, {16}},
      [](const Inputs& v) { return conv_transpose3d(v[0], v[1], v[2], {.stride = 2}); }, s);
  measure(
      "max_pool1d", {{32, 64, 512}},
      [](const Inputs& v) { return max_pool1d(v[0], {.kernel = 3, .stride = 2, .padding = 1}); },
      s);
  measure(
      "max_pool2d_3x2", {image},
      [](const Inputs& v) {
        return max_pool<2>(v[0], {.kernel = {3, 2}, .stride = 2, .padding = {1, 0}});
      },
      s);
  measure(
      "max_pool3d", {{4, 32, 16, 24, 24}}, [](const Inputs& v) { return max_pool3d(v[0], 2); }, s);
  measure(
      "avg_pool1d", {{32, 64, 512}},
      [](const Inputs& v) { return avg_pool1d(v[0], {.kernel = 3, .stride = 2, .padding = 1}); },
      s);
  measure(
      "avg_pool2d_3x2", {image},
      [](const Inputs& v) {
        return avg_pool<2>(v[0], {.kernel = {3, 2}, .stride = 2, .padding = {1, 0}});
      },
      s);
  measure(
      "avg_pool3d", {{4, 32, 16, 24, 24}}, [](const Inputs& v) { return avg_pool3d(v[0], 2); }, s);
  measure(
      "adaptive_max_pool2d", {image},
      [](const Inputs& v) {
        return adaptive_max_pool<2>(v[0], {7, 7});
      },
      s);
  measure(
      "adaptive_avg_pool3d", {{4, 32, 16, 24, 24}},
      [](const Inputs& v) {
        return adaptive_avg_pool<3>(v[0], {4, 5, 6});
      },
      s);

  measure_optimizer("RMSprop", {.kind = optim::RmspropOptions()}, s);
  measure_optimizer("Adagrad", {.kind = optim::AdagradOptions()}, s);
  measure_optimizer("Adadelta", {.kind = optim::AdadeltaOptions()}, s);
  measure_optimizer("Adamax", {.kind = optim::AdamaxOptions()}, s);
  measure_optimizer("NAdam", {.kind = optim::NAdamOptions()}, s);
  measure_optimizer("RAdam", {.kind = optim::RAdamOptions()}, s);
  measure_optimizer("ASGD", {.kind = optim::AsgdOptions()}, s);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::set_math_threads(1);
  lockstep::run(argc > 1 ? std::atof(argv[1]) : 0.1);
}
