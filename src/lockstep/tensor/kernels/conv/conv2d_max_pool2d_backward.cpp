#include <algorithm>
#include <array>
#include <utility>

#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d_plan.hpp>

namespace lockstep {
namespace {

using detail::ConvPoolPlan;
using detail::Image;
using detail::Scratch;
using simd::Floats;
using simd::Ints;

/// Window vectors that stay in registers during a pass over a list of elements.
constexpr int max_vectors = simd::registers == 32 ? 28 : 12;

/// Arranges a sample as ConvPoolPlan describes. Runs are copied in blocks; the excess of a block is
/// overwritten by the next runs.
template <int Block>
[[gnu::noinline]] void pack_patches(const ConvPoolPlan& plan, const Image& image, float* patches) {
  const std::int64_t run = plan.run(), strips = plan.strips(), span = plan.span();
  const std::int64_t channels = plan.channels, channel_stride = image.channel_stride;
  for (std::int64_t s = 0; s < strips; ++s) {
    for (std::int64_t row = 0; row < plan.rows; ++row) {
      const float* source = image.data + row * image.row_stride + s * span;
      for (std::int64_t c = 0; c < channels; ++c) {
        simd::copy_blocks<Block>(source, patches, run);
        source += channel_stride;
        patches += run;
      }
    }
  }
}

/// The elements of one channel of one sample whose gradient is passed on.
struct Elements {
  std::int64_t count;
  std::int32_t* window;  ///< where their windows start in the patches
  float* grad;
};

/// Fills `elements` and adds their gradients to `bias_sum`.
[[gnu::noinline]] void list_elements(const ConvPoolPlan& plan, const float* y,
                                     const std::uint8_t* code, const float* grad_y, float scale,
                                     const std::int32_t* first_window, Elements& elements,
                                     Floats& bias_sum) {
  const auto pool = static_cast<std::int32_t>(plan.pool);
  const std::int32_t reciprocal = plan.pool_reciprocal;
  const auto pitch = static_cast<std::int32_t>(plan.pitch());
  const auto next_column = static_cast<std::int32_t>(plan.span() == 1 ? plan.strip() : 1);
  elements.count = 0;
  for (std::int64_t pixel = 0; pixel < plan.area; pixel += simd::width) {
    const std::int64_t count = std::min<std::int64_t>(simd::width, plan.area - pixel);
    const Floats value = simd::load_partial(y + pixel, count);
    simd::Bytes bytes{};
    if (count == simd::width) {
      bytes = simd::load<simd::Bytes>(code + pixel);
    } else {
      for (std::int64_t i = 0; i < count; ++i) bytes[i] = code[pixel + i];
    }
    const Ints codes = __builtin_convertvector(bytes, Ints);
    const Ints passes = ~(value <= 0.0F);  // NaN passes, as in PyTorch
    const Floats grad = simd::load_partial(grad_y + pixel, count) * scale;
    bias_sum += passes ? grad : Floats{};
    const Ints below = pool == 2 ? codes >> 1 : (codes * reciprocal) >> 16;
    const Ints beside = codes - below * pool;
    const Ints window =
        simd::load<Ints>(first_window + pixel) + below * pitch + beside * next_column;
    elements.count =
        simd::append_if(passes, window, elements.window, grad, elements.grad, elements.count);
  }
}

/// sum += grad * window over all elements, for V vectors of the window. Few vectors leave room for
/// several elements at once, which hides the latency of one sum.
template <int V>
void gather(const Elements& elements, const float* patches, float* sum) {
  constexpr int unroll = V <= 2 ? 4 : V <= 6 ? 2 : 1;
  Floats part[unroll][V]{};
  std::int64_t e = 0;
  for (; e + unroll <= elements.count; e += unroll) {
#pragma GCC unroll 32
    for (int u = 0; u < unroll; ++u) {
      const float* window = patches + elements.window[e + u];
      const Floats grad = simd::broadcast(elements.grad[e + u]);
#pragma GCC unroll 32
      for (int v = 0; v < V; ++v) part[u][v] += grad * simd::load(window + v * simd::width);
    }
  }
  for (; e < elements.count; ++e) {
    const float* window = patches + elements.window[e];
    const Floats grad = simd::broadcast(elements.grad[e]);
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) part[0][v] += grad * simd::load(window + v * simd::width);
  }
#pragma GCC unroll 32
  for (int v = 0; v < V; ++v) {
#pragma GCC unroll 32
    for (int u = 1; u < unroll; ++u) part[0][v] += part[u][v];
    float* target = sum + v * simd::width;
    simd::store(target, simd::load(target) + part[0][v]);
  }
}

/// window += grad * weight for all elements, for V vectors of the window.
template <int V>
void scatter(const Elements& elements, const float* weight, float* patches) {
  Floats w[V];
#pragma GCC unroll 32
  for (int v = 0; v < V; ++v) w[v] = simd::load(weight + v * simd::width);
  for (std::int64_t e = 0; e < elements.count; ++e) {
    float* window = patches + elements.window[e];
    const Floats grad = simd::broadcast(elements.grad[e]);
#pragma GCC unroll 32
    for (int v = 0; v < V; ++v) {
      float* target = window + v * simd::width;
      simd::store(target, simd::load(target) + grad * w[v]);
    }
  }
}

using Gather = void (*)(const Elements&, const float*, float*);
using Scatter = void (*)(const Elements&, const float*, float*);

template <int... V>
constexpr std::array<Gather, sizeof...(V)> gathers(std::integer_sequence<int, V...>) {
  return {gather<V + 1>...};
}
template <int... V>
constexpr std::array<Scatter, sizeof...(V)> scatters(std::integer_sequence<int, V...>) {
  return {scatter<V + 1>...};
}
constexpr auto gather_of = gathers(std::make_integer_sequence<int, max_vectors>());
constexpr auto scatter_of = scatters(std::make_integer_sequence<int, max_vectors>());

/// Calls f(first float, vectors) for pieces of a window of `vectors` vectors that fit in registers.
template <class F>
void for_pieces(std::int64_t vectors, const F& f) {
  for (std::int64_t done = 0; done < vectors;) {
    const std::int64_t piece = std::min<std::int64_t>(vectors - done, max_vectors);
    f(done * simd::width, static_cast<std::size_t>(piece - 1));
    done += piece;
  }
}

/// grad_x[c][h][w] = sum over strips s of patch[s][h][c][w - s * span], one vector of a row at a
/// time. A strip's run is loaded with an offset that puts each element in its lane; the other lanes
/// are masked.
[[gnu::noinline]] void fold_patches(const ConvPoolPlan& plan, const float* patches,
                                    const std::int32_t* lane_mask, bool accumulate, float* grad_x) {
  constexpr std::int64_t width = simd::width;
  const std::int64_t span = plan.span(), run = plan.run(), strip = plan.strip();
  for (std::int64_t w = 0; w < plan.width; w += width) {
    const std::int64_t count = std::min(width, plan.width - w), column = w + plan.pad_w;
    const std::int64_t first = std::max<std::int64_t>(0, (column - run + span) / span);
    const std::int64_t last = std::min(plan.strips(), (column + width + span - 1) / span);
    const std::int64_t first_lane = first * span - column;
    for (std::int64_t c = 0; c < plan.channels; ++c) {
      for (std::int64_t h = 0; h < plan.height; ++h) {
        float* target = grad_x + (c * plan.height + h) * plan.width + w;
        Floats sum = accumulate ? simd::load_partial(target, count) : Floats{};
        const std::int64_t row = h + plan.pad_h;
        if (row < plan.rows) {
          const float* source = patches + first * strip + row * plan.pitch() + c * run - first_lane;
          const std::int32_t* mask = lane_mask + width - first_lane;
          for (std::int64_t s = first; s < last; ++s) {
            const Ints bits = simd::load<Ints>(source) & simd::load<Ints>(mask);
            sum += reinterpret_cast<Floats>(bits);
            source += strip - span;
            mask -= span;
          }
        }
        simd::store_partial(target, sum, count);
      }
    }
  }
}

/// f(index in a channel's weight [C,kh,kw], index in its window) for every tap.
template <class F>
void for_taps(const ConvPoolPlan& plan, const F& f) {
  std::int64_t tap = 0;
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    for (std::int64_t i = 0; i < plan.kernel_h; ++i) {
      for (std::int64_t j = 0; j < plan.kernel_w; ++j) f(tap++, plan.window_offset(c, i, j));
    }
  }
}

/// Scratch memory of one backward pass and the steps that use it.
class BackwardPass {
 public:
  BackwardPass(const ConvPoolPlan& plan, bool wants_x, bool wants_weight)
      : plan_(plan),
        wants_x_(wants_x),
        wants_weight_(wants_weight),
        vectors_((plan.window_numel() + width - 1) / width),
        scratch_(sizes()) {
    std::fill_n(scratch_[patches_piece], patches_numel(), 0.0F);
    std::fill_n(bias_sums_, plan.outputs * width, 0.0F);
    std::fill_n(weight_totals_, windows_numel(), 0.0F);
    for (std::int64_t p = 0; p < list_numel(); ++p) {
      const std::int64_t ph = p / plan.pooled_w, pw = p % plan.pooled_w;
      const std::int64_t strip = pw * (plan.pool / plan.span());
      first_window_[p] = static_cast<std::int32_t>(
          p < plan.area ? strip * plan.strip() + ph * plan.pool * plan.pitch() : 0);
    }
    for (std::int64_t i = 0; i < mask_numel(); ++i)
      lane_mask_[i] = i >= width && i < width + plan.run() ? -1 : 0;
  }

  /// Arranges the weights as windows, for the gradient of x.
  void load_weight(const float* weight) {
    std::fill_n(weight_windows_, windows_numel(), 0.0F);
    for (std::int64_t o = 0; o < plan_.outputs; ++o) {
      for_taps(plan_, [&](std::int64_t tap, std::int64_t at) {
        weight_windows_[o * window_numel() + at] = weight[o * plan_.taps + tap];
      });
    }
  }

  void begin_sample(const float* x, std::int64_t n) {
    if (wants_weight_) {
      const Image image = detail::stage_sample(plan_, x, n, staged_);
      simd::with_block(plan_.run(),
                       [&]<int Block>() { pack_patches<Block>(plan_, image, patches_); });
    }
    if (wants_x_) std::fill_n(scratch_[grad_patches_piece], patches_numel(), 0.0F);
  }

  void add_channel(std::int64_t o, const float* y, const std::uint8_t* code, const float* grad_y,
                   float scale) {
    Floats bias_sum = simd::load(bias_sums_ + o * width);
    list_elements(plan_, y, code, grad_y, scale, first_window_, elements_, bias_sum);
    if (elements_.count == 0) return;
    simd::store(bias_sums_ + o * width, bias_sum);
    for_pieces(vectors_, [&](std::int64_t first, std::size_t piece) {
      const std::int64_t at = o * window_numel() + first;
      if (wants_weight_) gather_of[piece](elements_, patches_ + first, weight_sums_ + at);
      if (wants_x_) scatter_of[piece](elements_, weight_windows_ + at, grad_patches_ + first);
    });
  }

  /// Folds the sample's gradient into grad_x; called only if that is wanted.
  void end_sample(bool accumulate, float* grad_x) const {
    fold_patches(plan_, grad_patches_, lane_mask_, accumulate, grad_x);
  }

  // Weight gradients are summed on three levels (a sample, a block of samples, the batch), which
  // keeps rounding errors of large batches small.
  void begin_block() { std::fill_n(weight_sums_, windows_numel(), 0.0F); }
  void end_block() {
    for (std::int64_t i = 0; i < windows_numel(); ++i) weight_totals_[i] += weight_sums_[i];
  }

  void store_weight(bool accumulate, float* grad_weight) const {
    for (std::int64_t o = 0; o < plan_.outputs; ++o) {
      for_taps(plan_, [&](std::int64_t tap, std::int64_t at) {
        float& target = grad_weight[o * plan_.taps + tap];
        target = weight_totals_[o * window_numel() + at] + (accumulate ? target : 0.0F);
      });
    }
  }

  void store_bias(bool accumulate, float* grad_bias) const {
    for (std::int64_t o = 0; o < plan_.outputs; ++o) {
      const float total = simd::sum(simd::load(bias_sums_ + o * width));
      grad_bias[o] = total + (accumulate ? grad_bias[o] : 0.0F);
    }
  }

 private:
  static constexpr std::int64_t width = simd::width;
  static constexpr std::size_t patches_piece = 1, grad_patches_piece = 2;

  [[nodiscard]] std::int64_t window_numel() const { return vectors_ * width; }
  [[nodiscard]] std::int64_t windows_numel() const { return plan_.outputs * window_numel(); }
  /// Vectors may begin up to one vector before the first run and end up to one after the last.
  [[nodiscard]] std::int64_t patches_numel() const {
    return 16 + plan_.strips() * plan_.strip() + 16;
  }
  [[nodiscard]] std::int64_t list_numel() const { return plan_.area + 2 * 16; }
  [[nodiscard]] std::int64_t mask_numel() const { return 3 * width + plan_.run(); }
  [[nodiscard]] std::array<std::int64_t, 11> sizes() const {
    return {plan_.staged_numel() + detail::overread,
            patches_numel(),
            patches_numel(),
            list_numel(),
            list_numel(),
            list_numel(),
            mask_numel(),
            windows_numel(),
            windows_numel(),
            windows_numel(),
            plan_.outputs * width};
  }

  const ConvPoolPlan& plan_;
  bool wants_x_, wants_weight_;
  std::int64_t vectors_;  // of a window
  detail::Scratch<11> scratch_;
  float* staged_ = scratch_[0];
  float* patches_ = scratch_[patches_piece] + 16;
  float* grad_patches_ = scratch_[grad_patches_piece] + 16;
  Elements elements_{0, reinterpret_cast<std::int32_t*>(scratch_[3]), scratch_[4]};
  std::int32_t* first_window_ = reinterpret_cast<std::int32_t*>(scratch_[5]);
  std::int32_t* lane_mask_ = reinterpret_cast<std::int32_t*>(scratch_[6]);
  float* weight_windows_ = scratch_[7];
  float* weight_sums_ = scratch_[8];    // of a block of samples
  float* weight_totals_ = scratch_[9];  // of the batch
  float* bias_sums_ = scratch_[10];     // a vector a channel
};

}  // namespace

void conv2d_max_pool2d_relu_backward(const Conv2dMaxPool2dInputs& inputs, const Tensor& y,
                                     const Tensor& code, const Tensor& grad_y,
                                     const Conv2dMaxPool2dGradients& gradients) {
  detail::check_conv_pool(inputs);
  const ConvPoolPlan plan(inputs.x.shape(), inputs.weight.shape(), inputs.conv, inputs.pool);
  const Shape pooled{plan.samples, plan.outputs, plan.pooled_h, plan.pooled_w};
  detail::check_operand("y", y, pooled, DType::f32);
  detail::check_operand("code", code, pooled, DType::u8);
  detail::check_operand("grad_y", grad_y, pooled, DType::f32);
  const auto target = [](const char* what, const Tensor& t, const Shape& shape) {
    if (t.defined()) detail::check_operand(what, t, shape, DType::f32);
    return static_cast<float*>(t.data());
  };
  float* grad_x = target("the gradient of x", gradients.x, inputs.x.shape());
  float* grad_weight = target("the gradient of weight", gradients.weight, inputs.weight.shape());
  float* grad_bias = target("the gradient of bias", gradients.bias, {plan.outputs});

  const auto* x = static_cast<const float*>(inputs.x.data());
  const auto* scale = static_cast<const float*>(inputs.channel_scale.data());
  const auto* y_in = static_cast<const float*>(y.data());
  const auto* code_in = static_cast<const std::uint8_t*>(code.data());
  const auto* grad_in = static_cast<const float*>(grad_y.data());

  BackwardPass pass(plan, grad_x != nullptr, grad_weight != nullptr);
  if (grad_x) pass.load_weight(static_cast<const float*>(inputs.weight.data()));
  constexpr std::int64_t block = 32;
  for (std::int64_t begin = 0; begin < plan.samples; begin += block) {
    pass.begin_block();
    for (std::int64_t n = begin; n < std::min(plan.samples, begin + block); ++n) {
      pass.begin_sample(x, n);
      for (std::int64_t o = 0; o < plan.outputs; ++o) {
        const std::int64_t row = n * plan.outputs + o, at = row * plan.area;
        pass.add_channel(o, y_in + at, code_in + at, grad_in + at, scale ? scale[row] : 1.0F);
      }
      if (grad_x) pass.end_sample(gradients.accumulate_x, grad_x + n * plan.sample_numel());
    }
    pass.end_block();
  }
  if (grad_weight) pass.store_weight(gradients.accumulate_weight, grad_weight);
  if (grad_bias) pass.store_bias(gradients.accumulate_bias, grad_bias);
}

}  // namespace lockstep
