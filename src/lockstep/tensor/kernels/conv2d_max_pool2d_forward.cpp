#include <algorithm>
#include <array>
#include <cmath>

#include <lockstep/tensor/kernels/conv2d_max_pool2d_plan.hpp>

namespace lockstep {
namespace {

using detail::ConvPoolPlan;
using detail::Image;
using simd::Floats;
using simd::Ints;

/// Channels computed together: 4 accumulators each, their broadcast weights, and two or more
/// inputs.
constexpr int max_group = simd::registers == 32 ? 6 : 3;

/// Arranges a sample as ConvPoolPlan describes. Runs of pooled_w floats are copied in blocks; what
/// a block spills is overwritten by the runs that follow, so the order of the loops matters.
template <int Block>
void pack_planes(const ConvPoolPlan& plan, const Image& image, float* line, float* planes) {
  const std::int64_t pool = plan.pool;
  const std::int64_t residue_stride = (plan.columns + pool - 1) / pool + 16;
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    for (std::int64_t first_row = 0; first_row < pool; ++first_row) {
      float* target = planes + c * plan.plane_stride() + plan.row_offset(first_row);
      for (std::int64_t row = first_row; row < plan.rows; row += pool) {
        const float* source = image.data + c * image.channel_stride + row * image.row_stride;
        if (pool == 2) {
          for (std::int64_t q = 0; q < plan.columns / 2; ++q) {
            line[q] = source[2 * q];
            line[residue_stride + q] = source[2 * q + 1];
          }
          if (plan.columns % 2 != 0) line[plan.columns / 2] = source[plan.columns - 1];
        } else {
          for (std::int64_t column = 0; column < plan.columns; ++column)
            line[column % pool * residue_stride + column / pool] = source[column];
        }
        std::int64_t shift = 0;
        for (std::int64_t whole = 0; shift < plan.shifts(); ++whole) {
          for (std::int64_t r = 0; r < pool && shift < plan.shifts(); ++r, ++shift) {
            simd::copy_blocks<Block>(line + r * residue_stride + whole,
                                     target + shift * plan.shift_stride(), plan.pooled_w);
          }
        }
        target += plan.pooled_w;
      }
    }
  }
}

/// A group of output channels of one sample.
struct ChannelGroup {
  std::array<const float*, max_group> weight;  ///< [C,kh,kw] each
  std::array<float, max_group> bias;
  std::array<float, max_group> scale;
  std::array<std::int64_t, max_group> channel;
};

/// The largest element so far of each of a vector of windows, and where in the window it stands.
struct Winner {
  Floats value;
  Ints code;

  /// NaN wins over everything, as in PyTorch.
  void challenge(const Floats& v, std::int32_t index) {
    const Ints wins = (v > value) | (v != v);
    value = wins ? v : value;
    code = wins ? simd::broadcast(index) : code;
  }
};

void store_winner(const ConvPoolPlan& plan, const Winner& winner, std::int64_t channel,
                  std::int64_t pixel, float* y, std::uint8_t* code) {
  // Written so that NaN, for which every comparison is false, stays.
  const Floats rectified = winner.value <= 0.0F ? Floats{} : winner.value;
  const auto bytes = __builtin_convertvector(winner.code, simd::Bytes);
  const std::int64_t at = channel * plan.area + pixel;
  const std::int64_t count = plan.area - pixel;
  if (count >= simd::width) {
    simd::store(y + at, rectified);
    if (code) simd::store(code + at, bytes);
  } else {
    simd::store_partial(y + at, rectified, count);
    for (std::int64_t i = 0; code && i < count; ++i) code[at + i] = bytes[i];
  }
}

/// One vector of pooled pixels, N channels, 2x2 windows: all four window elements at once, so that
/// pooling happens between registers.
template <int N>
[[gnu::noinline]] void pool_2x2(const ConvPoolPlan& plan, const float* planes, std::int64_t pixel,
                                const ChannelGroup& group, float* y, std::uint8_t* code) {
  Floats sum[N][4];
  for (int n = 0; n < N; ++n) {
    for (Floats& s : sum[n]) s = simd::broadcast(group.bias[n]);
  }
  const std::int64_t shift_stride = plan.shift_stride();
  std::int64_t tap = 0;
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    const float* plane = planes + c * plan.plane_stride() + pixel;
    for (std::int64_t i = 0; i < plan.kernel_h; ++i) {
      const float* upper = plane + plan.row_offset(i);
      const float* lower = plane + plan.row_offset(i + 1);
      Floats upper_left = simd::load(upper), lower_left = simd::load(lower);
      for (std::int64_t j = 0; j < plan.kernel_w; ++j, ++tap) {
        upper += shift_stride;
        lower += shift_stride;
        const Floats upper_right = simd::load(upper), lower_right = simd::load(lower);
        for (int n = 0; n < N; ++n) {
          const Floats w = simd::broadcast(group.weight[n][tap]);
          sum[n][0] += w * upper_left;
          sum[n][1] += w * upper_right;
          sum[n][2] += w * lower_left;
          sum[n][3] += w * lower_right;
        }
        upper_left = upper_right;
        lower_left = lower_right;
      }
    }
  }
  for (int n = 0; n < N; ++n) {
    const Floats scale = simd::broadcast(group.scale[n]);
    for (Floats& s : sum[n]) s *= scale;
    Winner winner{sum[n][0], Ints{}};
    if (simd::any_nan((sum[n][0] + sum[n][1]) + (sum[n][2] + sum[n][3]))) [[unlikely]] {
      for (int e = 1; e < 4; ++e) winner.challenge(sum[n][e], e);
    } else {
      for (int e = 1; e < 4; ++e) {
        const Ints wins = sum[n][e] > winner.value;
        winner.value = wins ? sum[n][e] : winner.value;
        winner.code = wins ? simd::broadcast(e) : winner.code;
      }
    }
    store_winner(plan, winner, group.channel[n], pixel, y, code);
  }
}

/// The same for windows of any size, one window element after the other.
template <int N>
[[gnu::noinline]] void pool_any(const ConvPoolPlan& plan, const float* planes, std::int64_t pixel,
                                const ChannelGroup& group, float* y, std::uint8_t* code) {
  Winner winner[N]{};
  for (std::int64_t element = 0; element < plan.pool * plan.pool; ++element) {
    const std::int64_t a = element / plan.pool, b = element % plan.pool;
    Floats sum[N];
    for (int n = 0; n < N; ++n) sum[n] = simd::broadcast(group.bias[n]);
    std::int64_t tap = 0;
    for (std::int64_t c = 0; c < plan.channels; ++c) {
      for (std::int64_t i = 0; i < plan.kernel_h; ++i) {
        const float* in = planes + b * plan.shift_stride() + c * plan.plane_stride() +
                          plan.row_offset(a + i) + pixel;
        for (std::int64_t j = 0; j < plan.kernel_w; ++j, ++tap, in += plan.shift_stride()) {
          const Floats v = simd::load(in);
          for (int n = 0; n < N; ++n) sum[n] += simd::broadcast(group.weight[n][tap]) * v;
        }
      }
    }
    for (int n = 0; n < N; ++n) {
      const Floats scaled = sum[n] * simd::broadcast(group.scale[n]);
      if (element == 0) {
        winner[n] = {scaled, Ints{}};
      } else {
        winner[n].challenge(scaled, static_cast<std::int32_t>(element));
      }
    }
  }
  for (int n = 0; n < N; ++n) store_winner(plan, winner[n], group.channel[n], pixel, y, code);
}

template <int N>
void run_group_of(const ConvPoolPlan& plan, const float* planes, const ChannelGroup& group,
                  float* y, std::uint8_t* code) {
  for (std::int64_t pixel = 0; pixel < plan.area; pixel += simd::width) {
    if (plan.pool == 2) {
      pool_2x2<N>(plan, planes, pixel, group, y, code);
    } else {
      pool_any<N>(plan, planes, pixel, group, y, code);
    }
  }
}

template <int N = max_group>
void run_group(const ConvPoolPlan& plan, const float* planes, int size, const ChannelGroup& group,
               float* y, std::uint8_t* code) {
  if (size == N) return run_group_of<N>(plan, planes, group, y, code);
  if constexpr (N > 1) run_group<N - 1>(plan, planes, size, group, y, code);
}

/// False for NaN or infinity anywhere.
bool all_finite(const float* elements, std::int64_t count) {
  float zeros = 0.0F;
#pragma omp simd reduction(+ : zeros)
  for (std::int64_t i = 0; i < count; ++i) zeros += elements[i] * 0.0F;
  return zeros == 0.0F;
}

}  // namespace

void conv2d_max_pool2d_relu_forward(const Conv2dMaxPool2dInputs& inputs, const Tensor& y,
                                    const Tensor& code) {
  detail::check_conv_pool(inputs);
  const ConvPoolPlan plan(inputs.x.shape(), inputs.weight.shape(), inputs.conv, inputs.pool);
  const Shape pooled{plan.samples, plan.outputs, plan.pooled_h, plan.pooled_w};
  detail::check_operand("y", y, pooled, DType::f32);
  if (code.defined()) detail::check_operand("code", code, pooled, DType::u8);
  if (plan.samples == 0) return;

  using detail::Scratch;
  const std::int64_t line_numel = plan.columns + 32 * plan.pool;
  const std::int64_t planes_numel = plan.shifts() * plan.shift_stride() + 16;
  const std::int64_t staged_numel = plan.staged_numel() + 16;
  Scratch scratch(Scratch::padded(line_numel) + Scratch::padded(planes_numel) +
                  Scratch::padded(staged_numel) + Scratch::padded(plan.outputs));
  float* line = scratch.take(line_numel);
  float* planes = scratch.take(planes_numel);
  float* staged = scratch.take(staged_numel);
  float* finite = scratch.take(plan.outputs);  // 1 where the channel's weight and bias are finite
  std::fill_n(line, line_numel, 0.0F);
  std::fill_n(planes, planes_numel, 0.0F);

  const auto* x = static_cast<const float*>(inputs.x.data());
  const auto* weight = static_cast<const float*>(inputs.weight.data());
  const auto* bias = static_cast<const float*>(inputs.bias.data());
  const auto* scale = static_cast<const float*>(inputs.channel_scale.data());
  auto* y_out = static_cast<float*>(y.data());
  auto* code_out = static_cast<std::uint8_t*>(code.data());
  if (scale) {
    for (std::int64_t o = 0; o < plan.outputs; ++o) {
      finite[o] =
          all_finite(weight + o * plan.taps, plan.taps) && (!bias || std::isfinite(bias[o]));
    }
  }

  for (std::int64_t n = 0; n < plan.samples; ++n) {
    const Image image = detail::stage_sample(plan, x, n, staged);
    simd::with_block(plan.pooled_w,
                     [&]<int Block>() { pack_planes<Block>(plan, image, line, planes); });
    float* y_sample = y_out + n * plan.outputs * plan.area;
    std::uint8_t* code_sample = code_out ? code_out + n * plan.outputs * plan.area : nullptr;

    // A dropped channel's output is zero without computing it, unless 0 * NaN must show.
    const bool may_skip = scale && all_finite(x + n * plan.sample_numel(), plan.sample_numel());
    const auto skipped = [&](std::int64_t o) {
      return may_skip && scale[n * plan.outputs + o] == 0.0F && finite[o] != 0.0F;
    };
    std::int64_t computed = 0;
    for (std::int64_t o = 0; o < plan.outputs; ++o) computed += !skipped(o);
    std::int64_t groups = (computed + max_group - 1) / max_group;

    ChannelGroup group;
    int size = 0;
    for (std::int64_t o = 0; o < plan.outputs; ++o) {
      if (skipped(o)) {
        std::fill_n(y_sample + o * plan.area, plan.area, 0.0F);
        if (code_sample) std::fill_n(code_sample + o * plan.area, plan.area, std::uint8_t{0});
        continue;
      }
      const auto slot = static_cast<std::size_t>(size++);
      group.weight[slot] = weight + o * plan.taps;
      group.bias[slot] = bias ? bias[o] : 0.0F;
      group.scale[slot] = scale ? scale[n * plan.outputs + o] : 1.0F;
      group.channel[slot] = o;
      // Groups of even sizes: 7 channels go as 4 + 3, not as 6 + 1.
      if (size < (computed + groups - 1) / groups) continue;
      run_group(plan, planes, size, group, y_sample, code_sample);
      computed -= size;
      --groups;
      size = 0;
    }
  }
}

}  // namespace lockstep
