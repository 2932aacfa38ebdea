#include <lockstep/tensor/kernels/linalg/packed_mlp.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/simd.hpp>

namespace lockstep {
namespace {

using simd::Floats;

/// Output vectors side by side. With the samples of a tile their sums fill the registers, except
/// for a few for weights and an input.
constexpr int most_vectors = simd::registers == 32 ? 4 : 2;
constexpr int sums = simd::registers == 32 ? 24 : 12;
/// Samples that pass all layers together: a multiple of every tile's samples.
constexpr std::int64_t block = 48;

constexpr std::int64_t round_up(std::int64_t count) {
  return (count + simd::width - 1) / simd::width * simd::width;
}

/// A layer's input and output; samples are `input_stride` and `output_stride` floats apart.
struct SampleRows {
  const float* input;
  std::int64_t input_stride;
  float* output;
  std::int64_t output_stride;
};

/// `Samples` samples times `Vectors` vectors of outputs, the last with `last` lanes. `weights` is
/// [in, Vectors * width].
template <int Samples, int Vectors>
void tile(const float* weights, const float* bias, std::int64_t in, bool relu,
          const SampleRows& rows, std::int64_t last) {
  Floats sum[Samples][Vectors];
#pragma GCC unroll 24
  for (int s = 0; s < Samples; ++s) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sum[s][v] = simd::load(bias + v * simd::width);
  }
  for (std::int64_t k = 0; k < in; ++k) {
    Floats w[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) w[v] = simd::load(weights + (k * Vectors + v) * simd::width);
#pragma GCC unroll 24
    for (int s = 0; s < Samples; ++s) {
      const float x = rows.input[s * rows.input_stride + k];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) sum[s][v] += w[v] * x;
    }
  }
#pragma GCC unroll 24
  for (int s = 0; s < Samples; ++s) {
    float* const out = rows.output + s * rows.output_stride;
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      // NaN stays NaN, as in relu_forward.
      const Floats y = relu ? (sum[s][v] < Floats{} ? Floats{} : sum[s][v]) : sum[s][v];
      if (v + 1 < Vectors || last == simd::width) {
        simd::store(out + v * simd::width, y);
      } else {
        simd::store_partial(out + v * simd::width, y, last);
      }
    }
  }
}

using Tile = void (*)(const float*, const float*, std::int64_t, bool, const SampleRows&,
                      std::int64_t);

/// Tiles of 1, 2, ... samples with that many vectors.
template <int Vectors>
constexpr auto tiles_of = []<int... S>(std::integer_sequence<int, S...>) {
  return std::array<Tile, sizeof...(S)>{tile<S + 1, Vectors>...};
}
(std::make_integer_sequence<int, sums / Vectors>());

/// Runs all samples of a block through one panel.
template <int Vectors>
void panel(const float* weights, const float* bias, std::int64_t in, bool relu, SampleRows rows,
           std::int64_t samples, std::int64_t last) {
  constexpr auto at_once = static_cast<std::int64_t>(tiles_of<Vectors>.size());
  while (samples > 0) {
    const std::int64_t now = std::min(samples, at_once);
    tiles_of<Vectors>[static_cast<std::size_t>(now - 1)](weights, bias, in, relu, rows, last);
    rows.input += now * rows.input_stride;
    rows.output += now * rows.output_stride;
    samples -= now;
  }
}

/// Grows to the largest size that a network of this thread needed; never shrinks.
float* workspace(std::int64_t floats) {
  thread_local std::vector<float> memory;
  if (std::ssize(memory) < floats) memory.resize(static_cast<std::size_t>(floats));
  return memory.data();
}

void expect_fits(const std::vector<PackedMlp::Layer>& layers) {
  if (layers.empty()) throw ShapeError("a network needs at least one layer");
  std::int64_t features = layers.front().weight.shape()[1];
  for (const auto& [weight, bias, relu] : layers) {
    const bool fits = weight.dtype() == DType::f32 && weight.shape().dims() == 2 &&
                      weight.shape()[1] == features &&
                      (!bias.defined() || bias.shape() == Shape{weight.shape()[0]});
    if (!fits) {
      throw ShapeError("a layer of weight " + to_string(weight.shape()) +
                       " does not fit after a layer of weight " + std::to_string(features) +
                       " outputs");
    }
    features = weight.shape()[0];
  }
}

}  // namespace

/// A layer in panels of most_vectors output vectors, the last panel with as few as it needs. The
/// weights of a panel are [in, its outputs], padded with zeros.
struct PackedMlp::Packed {
  explicit Packed(const Layer& layer)
      : in(layer.weight.shape()[1]), out(layer.weight.shape()[0]), relu(layer.relu) {
    const auto w = layer.weight.to_vector<float>();
    const std::int64_t padded = round_up(out);
    weights.resize(static_cast<std::size_t>(padded * in));
    bias.resize(static_cast<std::size_t>(padded));
    if (layer.bias.defined()) std::ranges::copy(layer.bias.to_vector<float>(), bias.begin());
    for (std::int64_t first = 0; first < padded; first += most_vectors * simd::width) {
      const std::int64_t width = std::min<std::int64_t>(padded - first, most_vectors * simd::width);
      for (std::int64_t k = 0; k < in; ++k) {
        for (std::int64_t o = first; o < std::min(first + width, out); ++o) {
          weights[static_cast<std::size_t>(first * in + k * width + o - first)] =
              w[static_cast<std::size_t>(o * in + k)];
        }
      }
    }
  }

  void run(SampleRows rows, std::int64_t samples) const {
    const std::int64_t padded = round_up(out);
    for (std::int64_t first = 0; first < padded; first += most_vectors * simd::width) {
      const std::int64_t vectors =
          std::min<std::int64_t>((padded - first) / simd::width, most_vectors);
      // Between layers there is room for whole vectors; the caller's memory ends at the last
      // output.
      const std::int64_t room = std::min(rows.output_stride - first, vectors * simd::width);
      const std::int64_t last = room - (vectors - 1) * simd::width;
      const auto run_panel = [&]<int V>(std::integral_constant<int, V>) {
        panel<V>(weights.data() + first * in, bias.data() + first, in, relu,
                 {rows.input, rows.input_stride, rows.output + first, rows.output_stride}, samples,
                 last);
      };
      if (vectors == 1) run_panel(std::integral_constant<int, 1>());
      if (vectors == 2) run_panel(std::integral_constant<int, 2>());
      if constexpr (most_vectors == 4) {
        if (vectors == 3) run_panel(std::integral_constant<int, 3>());
        if (vectors == 4) run_panel(std::integral_constant<int, 4>());
      }
    }
  }

  std::int64_t in, out;
  bool relu;
  std::vector<float> weights, bias;
};

PackedMlp::PackedMlp(const std::vector<Layer>& layers) {
  expect_fits(layers);
  for (const Layer& layer : layers) {
    layers_.emplace_back(layer);
    widest_ = std::max(widest_, round_up(layers_.back().out));
  }
}
PackedMlp::~PackedMlp() = default;

std::int64_t PackedMlp::inputs() const noexcept { return layers_.front().in; }
std::int64_t PackedMlp::outputs() const noexcept { return layers_.back().out; }

std::int64_t PackedMlp::packed_bytes(const std::vector<Layer>& layers) {
  std::int64_t floats = 0;
  for (const Layer& layer : layers)
    floats += round_up(layer.weight.shape()[0]) * (layer.weight.shape()[1] + 1);
  return floats * static_cast<std::int64_t>(sizeof(float));
}

void PackedMlp::run(const float* input, std::int64_t samples, float* output) const {
  const std::array<float*, 2> between{workspace(2 * block * widest_),
                                      workspace(2 * block * widest_) + block * widest_};
  for (std::int64_t begin = 0; begin < samples; begin += block) {
    const std::int64_t now = std::min(block, samples - begin);
    SampleRows rows{input + begin * inputs(), inputs(), nullptr, 0};
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      const bool is_last = l + 1 == layers_.size();
      rows.output = is_last ? output + begin * outputs() : between[l % 2];
      rows.output_stride = is_last ? outputs() : round_up(layers_[l].out);
      layers_[l].run(rows, now);
      rows.input = rows.output;
      rows.input_stride = rows.output_stride;
    }
  }
}

}  // namespace lockstep
