#include <lockstep/tensor/kernels/norm/batch_norm_blocks.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <lockstep/base/error.hpp>

namespace lockstep::detail {
namespace {

/// One number for each channel of a block.
template <int Block>
struct Channels {
  using Floats [[gnu::vector_size(Block * sizeof(float))]] = float;
  using Doubles = std::array<double, Block>;

  static Floats load(const float* source) {
    Floats v;
    std::memcpy(&v, source, sizeof v);
    return v;
  }
  static void store(float* target, const Floats& v) { std::memcpy(target, &v, sizeof v); }
  static Floats all(float x) { return x - Floats{}; }
};

/// The elements of one block of channels: `samples` runs of `positions` pixels.
struct Layout {
  std::int64_t samples, blocks, positions;

  explicit Layout(const Shape& x) : samples(x[0]), blocks(x[1]), positions(x[2] * x[3]) {}
  [[nodiscard]] double count() const { return static_cast<double>(samples * positions); }
  /// Calls f(offset of the first pixel, number of pixels) for each sample's run of block k.
  template <class F>
  void runs(std::int64_t k, std::int64_t block, const F& f) const {
    for (std::int64_t n = 0; n < samples; ++n) {
      f((n * blocks + k) * positions * block, positions);
    }
  }
};

/// Sums f(i) over `count` pixels in four partial sums, so that additions do not wait for each
/// other.
template <int Block, class F>
typename Channels<Block>::Floats sum(std::int64_t count, const F& f) {
  typename Channels<Block>::Floats a{}, b{}, c{}, d{};
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    a += f(i);
    b += f(i + 1);
    c += f(i + 2);
    d += f(i + 3);
  }
  for (; i < count; ++i) a += f(i);
  return (a + b) + (c + d);
}

template <int Block>
struct Statistics {
  typename Channels<Block>::Doubles mean{}, variance{};
};

/// Mean and biased variance. Each run is read twice while it is in the first-level cache, first for
/// its mean. The runs are merged as in Chan, Golub and LeVeque 1979, so the batch is read from
/// memory once.
template <int Block>
Statistics<Block> statistics_of(const float* x, const Layout& layout, std::int64_t k) {
  using C = Channels<Block>;
  Statistics<Block> joined;
  double seen = 0;
  layout.runs(k, Block, [&](std::int64_t offset, std::int64_t count) {
    const float* run = x + offset;
    const auto value = [&](std::int64_t i) { return C::load(run + i * Block); };
    const auto center = sum<Block>(count, value) / C::all(static_cast<float>(count));
    typename C::Floats rests[2] = {}, squares[2] = {};
    for (std::int64_t i = 0; i < count; ++i) {
      const auto distance = value(i) - center;
      rests[i % 2] += distance;
      squares[i % 2] += distance * distance;
    }
    const auto rest = rests[0] + rests[1], square = squares[0] + squares[1];
    const auto n = static_cast<double>(count), all = seen + n;
    for (int b = 0; b < Block; ++b) {
      const auto c = static_cast<std::size_t>(b);
      const double off = rest[b] / n;  // rounding error of the run's mean
      const double mean = center[b] + off, delta = mean - joined.mean[c];
      joined.mean[c] += delta * n / all;
      joined.variance[c] += square[b] - n * off * off + delta * delta * seen * n / all;
    }
    seen = all;
  });
  for (double& v : joined.variance) v = std::max(v / seen, 0.0);
  return joined;
}

template <int Block, bool HasResidual>
void apply(const Layout& layout, std::int64_t k, const float* x, const float* residual,
           const typename Channels<Block>::Floats& center,
           const typename Channels<Block>::Floats& scale,
           const typename Channels<Block>::Floats& shift, float least, float* y) {
  using C = Channels<Block>;
  const auto floor = C::all(least);
  layout.runs(k, Block, [&](std::int64_t offset, std::int64_t count) {
    for (std::int64_t i = offset; i < offset + count * Block; i += Block) {
      auto value = (C::load(x + i) - center) * scale + shift;
      if constexpr (HasResidual) value += C::load(residual + i);
      C::store(y + i, value < floor ? floor : value);
    }
  });
}

float* data_of(const Tensor& t) {
  if (t.device().type != DeviceType::host) {
    throw ShapeError("batch_norm in channel blocks runs on the host only, not on " + describe(t) +
                     ": convert it to a plain layout first, with from_channel_blocks");
  }
  return t.defined() ? static_cast<float*>(t.data()) : nullptr;
}

template <int Block>
void forward(const BatchNormInputs& in, bool training, double momentum, double eps, const Tensor& y,
             const BatchNormSaved& saved) {
  using C = Channels<Block>;
  const Layout layout(in.x.shape());
  const float least = in.relu ? 0.0F : -std::numeric_limits<float>::infinity();
  for (std::int64_t k = 0; k < layout.blocks; ++k) {
    float* const running_mean = data_of(in.running_mean) + k * Block;
    float* const running_var = data_of(in.running_var) + k * Block;
    Statistics<Block> statistics;
    if (training) statistics = statistics_of<Block>(data_of(in.x), layout, k);
    const float* const weight = data_of(in.weight) + k * Block;
    typename C::Floats center{}, scale{};
    for (int b = 0; b < Block; ++b) {
      double mean = running_mean[b], variance = running_var[b];
      if (training) {
        mean = statistics.mean[static_cast<std::size_t>(b)];
        variance = statistics.variance[static_cast<std::size_t>(b)];
        const double unbiased = variance * layout.count() / (layout.count() - 1);
        running_mean[b] = static_cast<float>((1 - momentum) * running_mean[b] + momentum * mean);
        running_var[b] = static_cast<float>((1 - momentum) * running_var[b] + momentum * unbiased);
      }
      const double inverse = 1 / std::sqrt(variance + eps);
      center[b] = static_cast<float>(mean);
      scale[b] = static_cast<float>(inverse * weight[b]);
      data_of(saved.inverse_std)[k * Block + b] = static_cast<float>(inverse);
    }
    C::store(data_of(saved.mean) + k * Block, center);
    const auto shift = C::load(data_of(in.bias) + k * Block);
    if (in.residual.defined()) {
      apply<Block, true>(layout, k, data_of(in.x), data_of(in.residual), center, scale, shift,
                         least, data_of(y));
    } else {
      apply<Block, false>(layout, k, data_of(in.x), nullptr, center, scale, shift, least,
                          data_of(y));
    }
  }
}

/// Nothing is below or equal to NaN, so without relu every gradient passes.
template <int Block>
typename Channels<Block>::Floats open() {
  return Channels<Block>::all(std::numeric_limits<float>::quiet_NaN());
}

/// The gradient before the relu: g where y is positive or NaN.
template <int Block>
struct Passed {
  const float *g, *y;
  typename Channels<Block>::Floats closed;  ///< no gradient passes where y <= closed

  typename Channels<Block>::Floats operator()(std::int64_t i) const {
    using C = Channels<Block>;
    return C::load(y + i) <= closed ? typename C::Floats{} : C::load(g + i);
  }
};

template <int Block>
Passed<Block> passed_in(const BatchNormInputs& in, const Tensor& y, const Tensor& grad_y) {
  using C = Channels<Block>;
  return {data_of(grad_y), data_of(in.relu ? y : in.x), in.relu ? C::all(0.0F) : open<Block>()};
}

template <int Block>
void add_to(float* target, bool accumulate, const typename Channels<Block>::Floats& value) {
  using C = Channels<Block>;
  C::store(target, accumulate ? C::load(target) + value : value);
}

template <int Block>
void backward(const BatchNormInputs& in, bool training, const BatchNormSaved& saved,
              const Tensor& y, const Tensor& grad_y, const BatchNormGradients& gradients) {
  using C = Channels<Block>;
  const Layout layout(in.x.shape());
  const float* const x = data_of(in.x);
  float* const grad_x = data_of(gradients.x);
  float* const grad_residual = data_of(gradients.residual);
  const Passed<Block> passed = passed_in<Block>(in, y, grad_y);
  for (std::int64_t k = 0; k < layout.blocks; ++k) {
    const auto center = C::load(data_of(saved.mean) + k * Block);
    const auto inverse = C::load(data_of(saved.inverse_std) + k * Block);
    const auto scale = C::load(data_of(in.weight) + k * Block) * inverse;
    typename C::Doubles total{}, product{};
    layout.runs(k, Block, [&](std::int64_t offset, std::int64_t count) {
      typename C::Floats sums[2] = {}, products[2] = {};
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = offset + i * Block;
        const auto g = passed(at);
        if (grad_residual) add_to<Block>(grad_residual + at, gradients.accumulate_residual, g);
        sums[i % 2] += g;
        products[i % 2] += g * (C::load(x + at) - center);
      }
      for (int b = 0; b < Block; ++b) {
        total[static_cast<std::size_t>(b)] += (sums[0] + sums[1])[b];
        product[static_cast<std::size_t>(b)] += (products[0] + products[1])[b];
      }
    });
    typename C::Floats grad_weight{}, grad_bias{}, mean_g{}, slope{};
    for (int b = 0; b < Block; ++b) {
      const auto c = static_cast<std::size_t>(b);
      grad_weight[b] = static_cast<float>(product[c] * inverse[b]);
      grad_bias[b] = static_cast<float>(total[c]);
      if (!training) continue;
      mean_g[b] = static_cast<float>(total[c] / layout.count());
      slope[b] = static_cast<float>(product[c] / layout.count() * inverse[b] * inverse[b]);
    }
    if (gradients.weight.defined()) {
      add_to<Block>(data_of(gradients.weight) + k * Block, gradients.accumulate_weight,
                    grad_weight);
    }
    if (gradients.bias.defined()) {
      add_to<Block>(data_of(gradients.bias) + k * Block, gradients.accumulate_bias, grad_bias);
    }
    if (!grad_x) continue;
    // The residual's gradient, as the first loop wrote it, has already passed the relu.
    const bool reuse = grad_residual && !gradients.accumulate_residual;
    const Passed<Block> again = reuse ? Passed<Block>{grad_residual, x, open<Block>()} : passed;
    layout.runs(k, Block, [&](std::int64_t offset, std::int64_t count) {
      for (std::int64_t i = offset; i < offset + count * Block; i += Block) {
        add_to<Block>(grad_x + i, gradients.accumulate_x,
                      scale * (again(i) - mean_g - (C::load(x + i) - center) * slope));
      }
    });
  }
}

template <int Block>
void statistics(const Tensor& x, const Tensor& part) {
  const Layout layout(x.shape());
  auto* const counts = static_cast<double*>(part.data());
  double *const means = counts + 1, *const variances = means + layout.blocks * Block;
  *counts = layout.count();
  for (std::int64_t k = 0; k < layout.blocks; ++k) {
    const auto block = statistics_of<Block>(data_of(x), layout, k);
    std::ranges::copy(block.mean, means + k * Block);
    std::ranges::copy(block.variance, variances + k * Block);
  }
}

template <int Block>
void backward_of_all(const BatchNormInputs& in, const BatchNormSaved& saved, const Tensor& y,
                     const Tensor& grad_y, const Tensor& sums, double count, const Tensor& grad_x,
                     bool accumulate) {
  using C = Channels<Block>;
  const Layout layout(in.x.shape());
  const float* const x = data_of(in.x);
  const Passed<Block> passed = passed_in<Block>(in, y, grad_y);
  for (std::int64_t k = 0; k < layout.blocks; ++k) {
    const auto center = C::load(data_of(saved.mean) + k * Block);
    const auto inverse = C::load(data_of(saved.inverse_std) + k * Block);
    const auto scale = C::load(data_of(in.weight) + k * Block) * inverse;
    const float* const total = data_of(sums) + k * Block;
    const float* const product = total + layout.blocks * Block;
    typename C::Floats mean_g{}, slope{};
    for (int b = 0; b < Block; ++b) {
      mean_g[b] = static_cast<float>(total[b] / count);
      slope[b] = static_cast<float>(product[b] / count * inverse[b]);
    }
    layout.runs(k, Block, [&](std::int64_t offset, std::int64_t pixels) {
      for (std::int64_t i = offset; i < offset + pixels * Block; i += Block) {
        add_to<Block>(data_of(grad_x) + i, accumulate,
                      scale * (passed(i) - mean_g - (C::load(x + i) - center) * slope));
      }
    });
  }
}

}  // namespace

void batch_norm_blocks_forward(const BatchNormInputs& inputs, bool training, double momentum,
                               double eps, const Tensor& y, const BatchNormSaved& saved) {
  (inputs.x.size(4) == 16 ? forward<16> : forward<8>)(inputs, training, momentum, eps, y, saved);
}

void batch_norm_blocks_backward(const BatchNormInputs& inputs, bool training,
                                const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                                const BatchNormGradients& gradients) {
  (inputs.x.size(4) == 16 ? backward<16> : backward<8>)(inputs, training, saved, y, grad_y,
                                                        gradients);
}

void batch_norm_blocks_statistics(const Tensor& x, const Tensor& part) {
  (x.size(4) == 16 ? statistics<16> : statistics<8>)(x, part);
}

void sync_batch_norm_blocks_backward(const BatchNormInputs& inputs, const BatchNormSaved& saved,
                                     const Tensor& y, const Tensor& grad_y, const Tensor& sums,
                                     double count, const Tensor& grad_x, bool accumulate) {
  (inputs.x.size(4) == 16 ? backward_of_all<16> : backward_of_all<8>)(inputs, saved, y, grad_y,
                                                                      sums, count, grad_x,
                                                                      accumulate);
}

}  // namespace lockstep::detail
