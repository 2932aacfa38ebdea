#include <algorithm>
#include <array>
#include <utility>

#include <lockstep/tensor/kernels/conv2d_max_pool2d_plan.hpp>

namespace lockstep {
namespace {

using detail::ConvPoolPlan;
using detail::Image;
using detail::Scratch;
using simd::Floats;
using simd::Ints;

/// Vectors of a window that stay in registers while a list of elements is visited.
constexpr int max_vectors = simd::registers == 32 ? 24 : 12;

/// patch[ow][row][c][j] = image[c][row][ow + j]. Runs of kernel_w floats are copied in blocks; what
/// a block spills is overwritten by the runs that follow.
template <int Block>
void pack_patches(const ConvPoolPlan& plan, const Image& image, float* patches) {
  for (std::int64_t ow = 0; ow < plan.strips(); ++ow) {
    for (std::int64_t row = 0; row < plan.rows; ++row) {
      const float* source = image.data + row * image.row_stride + ow;
      for (std::int64_t c = 0; c < plan.channels; ++c) {
        simd::copy_blocks<Block>(source, patches, plan.kernel_w);
        source += image.channel_stride;
        patches += plan.kernel_w;
      }
    }
  }
}

/// The elements of one channel of one sample that gradient passes through.
struct Elements {
  std::int64_t count = 0;
  std::int32_t* window;  ///< where their windows start in the patches
  float* grad;
};

/// Fills `elements` and adds their gradients to `bias_sum`.
void list_elements(const ConvPoolPlan& plan, const float* y, const std::uint8_t* code,
                   const float* grad_y, float scale, const std::int32_t* first_window,
                   Elements& elements, Floats& bias_sum) {
  const auto pool = static_cast<std::int32_t>(plan.pool);
  const std::int32_t reciprocal = (65536 + pool - 1) / pool;  // exact division of codes below 255
  const auto pitch = static_cast<std::int32_t>(plan.pitch());
  const auto strip = static_cast<std::int32_t>(plan.strip());
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
    const Ints below = (codes * reciprocal) >> 16;
    const Ints beside = codes - below * pool;
    const Ints window = simd::load<Ints>(first_window + pixel) + below * pitch + beside * strip;
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
    for (int u = 0; u < unroll; ++u) {
      const float* window = patches + elements.window[e + u];
      const Floats grad = simd::broadcast(elements.grad[e + u]);
      for (int v = 0; v < V; ++v) part[u][v] += grad * simd::load(window + v * simd::width);
    }
  }
  for (; e < elements.count; ++e) {
    const float* window = patches + elements.window[e];
    const Floats grad = simd::broadcast(elements.grad[e]);
    for (int v = 0; v < V; ++v) part[0][v] += grad * simd::load(window + v * simd::width);
  }
  for (int v = 0; v < V; ++v) {
    for (int u = 1; u < unroll; ++u) part[0][v] += part[u][v];
    float* target = sum + v * simd::width;
    simd::store(target, simd::load(target) + part[0][v]);
  }
}

/// window += grad * weight for all elements, for V vectors of the window.
template <int V>
void scatter(const Elements& elements, const float* weight, float* patches) {
  Floats w[V];
  for (int v = 0; v < V; ++v) w[v] = simd::load(weight + v * simd::width);
  for (std::int64_t e = 0; e < elements.count; ++e) {
    float* window = patches + elements.window[e];
    const Floats grad = simd::broadcast(elements.grad[e]);
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

/// grad_x[c][h][w] = sum over j of patch[w - j][h][c][j], one vector of a row at a time: a patch's
/// run of kernel_w floats is loaded so that it stands in the lanes that it belongs to, the others
/// masked.
void fold_patches(const ConvPoolPlan& plan, const float* patches, const std::int32_t* lane_mask,
                  bool accumulate, float* grad_x) {
  constexpr std::int64_t width = simd::width;
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    for (std::int64_t h = 0; h < plan.height; ++h) {
      float* row = grad_x + (c * plan.height + h) * plan.width;
      const std::int64_t from = h + plan.pad_h;
      for (std::int64_t w = 0; w < plan.width; w += width) {
        const std::int64_t count = std::min(width, plan.width - w);
        Floats sum = accumulate ? simd::load_partial(row + w, count) : Floats{};
        if (from < plan.rows) {
          const std::int64_t column = w + plan.pad_w;
          const std::int64_t first = std::max<std::int64_t>(0, column - plan.kernel_w + 1);
          const std::int64_t last = std::min(plan.strips(), column + width);
          const float* run = patches + from * plan.pitch() + c * plan.kernel_w;
          for (std::int64_t ow = first; ow < last; ++ow) {
            const std::int64_t lane = ow - column;
            const Ints bits = simd::load<Ints>(run + ow * plan.strip() - lane) &
                              simd::load<Ints>(lane_mask + width - lane);
            sum += reinterpret_cast<Floats>(bits);
          }
        }
        simd::store_partial(row + w, sum, count);
      }
    }
  }
}

/// [C,kh,kw] <-> [kh,C,kw], the order of a window.
template <class F>
void for_window(const ConvPoolPlan& plan, const F& f) {
  std::int64_t tap = 0;
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    for (std::int64_t i = 0; i < plan.kernel_h; ++i) {
      for (std::int64_t j = 0; j < plan.kernel_w; ++j, ++tap)
        f(tap, (i * plan.channels + c) * plan.kernel_w + j);
    }
  }
}

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

  constexpr std::int64_t width = simd::width;
  const std::int64_t vectors = (plan.window_numel() + width - 1) / width;
  const std::int64_t window_numel = vectors * width;
  const std::int64_t staged_numel = plan.staged_numel() + 16;
  // Vectors may begin up to one before a run and end up to one behind the last.
  const std::int64_t patches_numel = 16 + plan.strips() * plan.strip() + 16;
  const std::int64_t list_numel = plan.area + 2 * 16;
  const std::int64_t mask_numel = 3 * width + plan.kernel_w;
  Scratch scratch(Scratch::padded(staged_numel) + 2 * Scratch::padded(patches_numel) +
                  3 * Scratch::padded(list_numel) + Scratch::padded(mask_numel) +
                  2 * plan.outputs * window_numel + 16 + plan.outputs * width);
  float* staged = scratch.take(staged_numel);
  float* patches = scratch.take(patches_numel) + 16;
  float* grad_patches = scratch.take(patches_numel) + 16;
  Elements elements;
  elements.grad = scratch.take(list_numel);
  elements.window = reinterpret_cast<std::int32_t*>(scratch.take(list_numel));
  auto* first_window = reinterpret_cast<std::int32_t*>(scratch.take(list_numel));
  auto* lane_mask = reinterpret_cast<std::int32_t*>(scratch.take(mask_numel));
  float* weight_windows = scratch.take(plan.outputs * window_numel);
  float* weight_sums = scratch.take(plan.outputs * window_numel);
  float* bias_sums = scratch.take(plan.outputs * width);

  const auto* x = static_cast<const float*>(inputs.x.data());
  const auto* weight = static_cast<const float*>(inputs.weight.data());
  const auto* scale = static_cast<const float*>(inputs.channel_scale.data());
  const auto* y_in = static_cast<const float*>(y.data());
  const auto* code_in = static_cast<const std::uint8_t*>(code.data());
  const auto* grad_in = static_cast<const float*>(grad_y.data());

  for (std::int64_t p = 0; p < list_numel; ++p) {
    const std::int64_t ph = p / plan.pooled_w, pw = p % plan.pooled_w;
    first_window[p] = static_cast<std::int32_t>(
        p < plan.area ? plan.pool * (pw * plan.strip() + ph * plan.pitch()) : 0);
  }
  for (std::int64_t i = 0; i < mask_numel; ++i)
    lane_mask[i] = i >= width && i < width + plan.kernel_w ? -1 : 0;
  std::fill_n(patches - 16, patches_numel, 0.0F);
  std::fill_n(bias_sums, plan.outputs * width, 0.0F);
  if (grad_x) {
    std::fill_n(weight_windows, plan.outputs * window_numel, 0.0F);
    for (std::int64_t o = 0; o < plan.outputs; ++o) {
      for_window(plan, [&](std::int64_t tap, std::int64_t at) {
        weight_windows[o * window_numel + at] = weight[o * plan.taps + tap];
      });
    }
  }
  if (grad_weight && !gradients.accumulate_weight) gradients.weight.zero();

  // Three levels of sums (a sample, a block of samples, the batch) keep rounding errors of large
  // batches small.
  constexpr std::int64_t block = 32;
  for (std::int64_t begin = 0; begin < plan.samples; begin += block) {
    std::fill_n(weight_sums, plan.outputs * window_numel, 0.0F);
    for (std::int64_t n = begin; n < std::min(plan.samples, begin + block); ++n) {
      if (grad_weight) {
        const Image image = detail::stage_sample(plan, x, n, staged);
        simd::with_block(plan.kernel_w,
                         [&]<int Block>() { pack_patches<Block>(plan, image, patches); });
      }
      if (grad_x) std::fill_n(grad_patches - 16, patches_numel, 0.0F);
      for (std::int64_t o = 0; o < plan.outputs; ++o) {
        const float channel_scale = scale ? scale[n * plan.outputs + o] : 1.0F;
        const std::int64_t at = (n * plan.outputs + o) * plan.area;
        Floats bias_sum = simd::load(bias_sums + o * width);
        list_elements(plan, y_in + at, code_in + at, grad_in + at, channel_scale, first_window,
                      elements, bias_sum);
        if (elements.count == 0) continue;
        simd::store(bias_sums + o * width, bias_sum);
        for_pieces(vectors, [&](std::int64_t first, std::size_t piece) {
          const std::int64_t of_channel = o * window_numel + first;
          if (grad_weight) gather_of[piece](elements, patches + first, weight_sums + of_channel);
          if (grad_x)
            scatter_of[piece](elements, weight_windows + of_channel, grad_patches + first);
        });
      }
      if (grad_x) {
        fold_patches(plan, grad_patches, lane_mask, gradients.accumulate_x,
                     grad_x + n * plan.sample_numel());
      }
    }
    for (std::int64_t o = 0; grad_weight && o < plan.outputs; ++o) {
      for_window(plan, [&](std::int64_t tap, std::int64_t at) {
        grad_weight[o * plan.taps + tap] += weight_sums[o * window_numel + at];
      });
    }
  }
  for (std::int64_t o = 0; grad_bias && o < plan.outputs; ++o) {
    const float total = simd::sum(simd::load(bias_sums + o * width));
    grad_bias[o] = gradients.accumulate_bias ? grad_bias[o] + total : total;
  }
}

}  // namespace lockstep
