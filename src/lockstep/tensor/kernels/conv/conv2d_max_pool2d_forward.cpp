#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d_plan.hpp>

namespace lockstep {
namespace {

using detail::ConvPoolPlan;
using detail::Image;
using simd::Floats;
using simd::Ints;

/// Channels computed together: 4 accumulators each, their broadcast weights, and two or more
/// inputs.
constexpr int max_group = simd::registers == 32 ? 6 : 3;

/// Arranges a sample as ConvPoolPlan describes. Runs of pooled_w floats are written in blocks; the
/// excess of a block is overwritten by the next runs, so the order of the loops matters.
template <int Block>
[[gnu::noinline]] void pack_planes(const ConvPoolPlan& plan, const Image& image, float* planes) {
  const std::int64_t pool = plan.pool, shifts = plan.shifts(), stride = plan.shift_stride();
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    for (std::int64_t first_row = 0; first_row < pool; ++first_row) {
      float* target = planes + c * plan.plane_stride() + plan.row_offset(first_row);
      for (std::int64_t row = first_row; row < plan.rows; row += pool, target += plan.pooled_w) {
        const float* source = image.data + c * image.channel_stride + row * image.row_stride;
        std::int64_t shift = 0;
        if (pool == 2) {
          for (; shift + 1 < shifts; shift += 2) {
            simd::split_even_odd<Block>(source + shift, target + shift * stride,
                                        target + (shift + 1) * stride, plan.pooled_w);
          }
        }
        for (; shift < shifts; ++shift) {
          for (std::int64_t pw = 0; pw < plan.pooled_w; ++pw)
            target[shift * stride + pw] = source[shift + pool * pw];
        }
      }
    }
  }
}

/// A group of output channels of one sample.
struct ChannelGroup {
  std::array<const float*, max_group> weight;  ///< [C,kh,kw] each
  std::array<float, max_group> bias;
  std::array<float, max_group> scale;
  bool scaled;
  std::array<std::int64_t, max_group> channel;
};

/// The largest element so far of each of a vector of windows, and its place in the window.
struct Winner {
  Floats value;
  Ints code;

  /// A NaN always wins, as in PyTorch.
  void challenge(const Floats& v, std::int32_t index) {
    const Ints wins = (v > value) | (v != v);
    value = wins ? v : value;
    code = wins ? simd::broadcast(index) : code;
  }
};

/// The first of the largest of four elements, none of them NaN.
inline Winner winner_of_four(const Floats (&v)[4]) {
  const Ints right = v[1] > v[0], lower_right = v[3] > v[2];
  const Floats upper = right ? v[1] : v[0], below = lower_right ? v[3] : v[2];
  const Ints lower = below > upper;
  const Ints upper_code = right ? simd::broadcast(1) : simd::broadcast(0);
  const Ints lower_code = lower_right ? simd::broadcast(3) : simd::broadcast(2);
  return {lower ? below : upper, lower ? lower_code : upper_code};
}

inline void store_winner(const ConvPoolPlan& plan, const Winner& winner, std::int64_t channel,
                         std::int64_t pixel, float* y, std::uint8_t* code) {
  // This form keeps NaN, for which every comparison is false.
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

/// One vector of pooled pixels, N channels, 2x2 windows. All four window elements are computed at
/// once, so pooling happens in registers.
template <int N>
[[gnu::noinline]] void pool_2x2(const ConvPoolPlan& plan, const float* planes, std::int64_t pixel,
                                const ChannelGroup& group, float* y, std::uint8_t* code) {
  Floats sum[N][4];
#pragma GCC unroll 32
  for (int n = 0; n < N; ++n) {
    for (Floats& s : sum[n]) s = simd::broadcast(group.bias[n]);
  }
  const std::int64_t shift_stride = plan.shift_stride(), kernel_w = plan.kernel_w;
  std::array<const float*, N> weight;
  for (int n = 0; n < N; ++n) weight[n] = group.weight[n];
  std::int64_t tap = 0;
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    const float* even = planes + c * plan.plane_stride() + pixel;
    const float* odd = even + plan.row_offset(1);
    for (std::int64_t i = 0; i < plan.kernel_h; ++i) {
      const float* upper = even;
      const float* lower = odd;
      for (std::int64_t j = 0; j < kernel_w; ++j, ++tap) {
        const Floats upper_left = simd::load(upper), lower_left = simd::load(lower);
        upper += shift_stride;
        lower += shift_stride;
        const Floats upper_right = simd::load(upper), lower_right = simd::load(lower);
#pragma GCC unroll 32
        for (int n = 0; n < N; ++n) {
          const Floats w = simd::broadcast(weight[n][tap]);
          sum[n][0] += w * upper_left;
          sum[n][1] += w * upper_right;
          sum[n][2] += w * lower_left;
          sum[n][3] += w * lower_right;
        }
      }
      // The next kernel row: its upper pixels are this row's lower ones.
      even += plan.pooled_w;
      std::swap(even, odd);
    }
  }
  Floats all{};  // NaN if there is a NaN anywhere
#pragma GCC unroll 32
  for (int n = 0; n < N; ++n) {
    if (group.scaled) {
      for (Floats& s : sum[n]) s *= simd::broadcast(group.scale[n]);
    }
    all += (sum[n][0] + sum[n][1]) + (sum[n][2] + sum[n][3]);
  }
  const bool has_nan = simd::any_nan(all);
#pragma GCC unroll 32
  for (int n = 0; n < N; ++n) {
    Winner winner;
    if (has_nan) [[unlikely]] {
      winner = {sum[n][0], Ints{}};
      for (int e = 1; e < 4; ++e) winner.challenge(sum[n][e], e);
    } else {
      winner = winner_of_four(sum[n]);
    }
    store_winner(plan, winner, group.channel[n], pixel, y, code);
  }
}

/// The same for windows of any size, one window element after another.
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

  const std::int64_t planes_numel = plan.shifts() * plan.shift_stride() + 16;
  const detail::Scratch<3> scratch(
      {planes_numel, plan.staged_numel() + detail::overread, plan.outputs});
  float* planes = scratch[0];
  float* staged = scratch[1];
  float* finite = scratch[2];  // 1 where the channel's weight and bias are finite
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
    simd::with_block(plan.pooled_w, [&]<int Block>() { pack_planes<Block>(plan, image, planes); });
    float* y_sample = y_out + n * plan.outputs * plan.area;
    std::uint8_t* code_sample = code_out ? code_out + n * plan.outputs * plan.area : nullptr;

    // A dropped channel's output is zero and not computed, unless 0 * NaN must give NaN.
    const bool may_skip = scale && all_finite(x + n * plan.sample_numel(), plan.sample_numel());
    const auto skipped = [&](std::int64_t o) {
      return may_skip && scale[n * plan.outputs + o] == 0.0F && finite[o] != 0.0F;
    };
    std::int64_t computed = 0;
    for (std::int64_t o = 0; o < plan.outputs; ++o) computed += !skipped(o);
    std::int64_t groups = (computed + max_group - 1) / max_group;

    ChannelGroup group;
    group.scaled = scale != nullptr;
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
      // Groups of nearly equal size: 7 channels are computed as 4 + 3, not as 6 + 1.
      if (size < (computed + groups - 1) / groups) continue;
      run_group(plan, planes, size, group, y_sample, code_sample);
      computed -= size;
      --groups;
      size = 0;
    }
  }
}

}  // namespace lockstep
