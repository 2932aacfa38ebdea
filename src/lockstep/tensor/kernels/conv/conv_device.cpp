#include <lockstep/tensor/kernels/conv/conv_device.hpp>

#include <algorithm>
#include <limits>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>
#include <lockstep/tensor/kernels/conv/conv_task.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/kernels/resample/pad.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/tf32.hpp>

namespace lockstep::detail {
namespace {

using math::Convolution;
using math::ConvolutionPass;

constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();

std::int64_t elements_of_x(const Conv2dProblem& p) { return p.c * p.depth.d * p.h * p.w; }
std::int64_t elements_of_y(const Conv2dProblem& p) { return p.o * p.depth.od * p.oh * p.ow; }

/// The values of the two or three spatial dimensions after `leading` ones, as int.
template <std::size_t N>
class IntArray {
 public:
  explicit IntArray(const Conv2dProblem& problem) : problem_(problem) {}

  IntArray& add(std::int64_t number) {
    if (number > most) {
      throw ShapeError(std::string(name_of(problem_)) + ": " + std::to_string(number) +
                       " is above a GPU library's largest index (2^31 - 1)");
    }
    numbers_[count_++] = static_cast<int>(number);
    return *this;
  }
  IntArray& add_spatial(std::int64_t depth, std::int64_t height, std::int64_t width) {
    if (problem_.is_3d) add(depth);
    return add(height).add(width);
  }
  [[nodiscard]] const std::array<int, N>& numbers() const { return numbers_; }
  /// The strides of a contiguous tensor with these extents.
  [[nodiscard]] IntArray strides() const {
    IntArray result(problem_);
    for (std::size_t d = 0; d < count_; ++d) {
      std::int64_t stride = 1;
      for (std::size_t later = d + 1; later < count_; ++later) {
        stride *= std::max(numbers_[later], 1);
      }
      result.add(stride);
    }
    return result;
  }

 private:
  const Conv2dProblem& problem_;
  std::array<int, N> numbers_{};
  std::size_t count_ = 0;
};

/// `x` as an operand: rounded to product_precision(), but stored as f32.
Tensor rounded(const Tensor& x) { return product_operand(x).to(x.dtype()); }

/// Calls f(begin, end, convolution) for parts of the batch, each of up to `together` samples.
template <class F>
void for_each_part(const Conv2dProblem& p, std::int64_t together, ConvolutionPass pass, DType dtype,
                   bool accumulate, const F& f) {
  for (std::int64_t begin = 0; begin < p.n; begin += together) {
    const std::int64_t end = std::min(begin + together, p.n);
    Convolution part = convolution_of(p, pass, dtype, end - begin);
    // All parts add to one gradient of the weight.
    part.accumulate = accumulate || (pass == ConvolutionPass::backward_weight && begin > 0);
    f(begin, end, part);
  }
}

/// The two tensors that a pass reads, in the order of ConvolutionAddresses, and the one it writes,
/// which is f32 or of their type.
struct PassTensors {
  const Tensor &first, &second, &result;
};

bool is_run(math::DeviceMath& math, const Conv2dProblem& p, const Convolution& c,
            const PassTensors& t) {
  return math::run(math, name_of(p), c,
                   {t.first.kernel_data(), t.second.kernel_data(), t.result.kernel_data()},
                   t.result.device());
}

/// Runs one part. Libraries write 16 bits from operands of 16 bits: a result of f32 is converted.
void run_part(math::DeviceMath& math, const Conv2dProblem& p, const Convolution& part,
              const PassTensors& t) {
  const Tensor& to = t.result;
  if (to.dtype() == part.dtype) {
    if (is_run(math, p, part, t)) return;
  } else {
    Convolution alone = part;
    alone.accumulate = false;
    const Tensor stored = Tensor::empty(to.shape(), part.dtype, to.device());
    if (is_run(math, p, alone, {t.first, t.second, stored})) {
      return part.accumulate ? add_scaled(stored, 1.0, to) : convert(stored, to);
    }
  }
  // The library lacks it in 16 bits.
  Convolution wide = part;
  wide.dtype = DType::f32;
  wide.rounded = true;
  const bool is_wide = to.dtype() == DType::f32;
  const Tensor sums = is_wide || part.accumulate
                          ? to.to(DType::f32)
                          : Tensor::empty(to.shape(), DType::f32, to.device());
  static_cast<void>(is_run(math, p, wide, {t.first.to(DType::f32), t.second.to(DType::f32), sums}));
  if (!is_wide) convert(sums, to);
}

/// How much longer `whole`'s y is than `t` along its spatial dimensions.
PadAmounts missing_windows(const Conv2dProblem& whole, const Tensor& t) {
  PadAmounts amounts;
  amounts.behind[0] = whole.ow - t.size(-1);
  amounts.behind[1] = whole.oh - t.size(-2);
  if (whole.is_3d) amounts.behind[2] = whole.depth.od - t.size(-3);
  return amounts;
}

Tensor empty_output(const Conv2dProblem& p, const Tensor& like) {
  const Shape shape =
      p.is_3d ? Shape{p.n, p.o, p.depth.od, p.oh, p.ow} : Shape{p.n, p.o, p.oh, p.ow};
  return Tensor::empty(shape, like.dtype(), like.device());
}

/// pad_forward, which takes f32 and f64, of 16 bits too. Only a transposed convolution whose
/// output_padding reaches its stride needs it.
void pad_windows(const Tensor& from, const PadAmounts& amounts, const Tensor& to) {
  if (!is_half(from.dtype())) return pad_forward(from, amounts, PadMode::constant, 0.0, to);
  const Tensor wide = Tensor::empty(to.shape(), DType::f32, to.device());
  pad_forward(from.to(DType::f32), amounts, PadMode::constant, 0.0, wide);
  convert(wide, to);
}

/// `grad_y` with zeros for the windows that it leaves out.
Tensor with_missing_windows(const Conv2dProblem& whole, const Tensor& grad_y) {
  Tensor all = empty_output(whole, grad_y);
  pad_windows(grad_y, missing_windows(whole, grad_y), all);
  return all;
}

/// A pass of 16 bits with channels last, in one call. Returns false and does nothing where it is
/// none: of f32, of channels that do not fit, of left-out windows, of a batch for several calls,
/// and where the library lacks it.
bool run_channels_last(math::DeviceMath& math, const Conv2dProblem& p, ConvolutionPass pass,
                       bool accumulate, const PassTensors& t) {
  const DType dtype = t.first.dtype();
  const Device device = t.result.device();
  const auto fits = [&](const Tensor& image) {
    return fits_channel_blocks(plain_shape(image), dtype, device);
  };
  if (!is_half(dtype) || !fits(t.first) || !fits(t.second) || !fits(t.result) ||
      !p.takes_all_windows() || samples_a_call(p) < p.n) {
    return false;
  }
  Convolution c = with_channels_last(convolution_of(p, pass, dtype, p.n));
  const bool is_direct = is_channel_blocked(t.result) && t.result.dtype() == dtype;
  c.accumulate = accumulate && is_direct;
  if (!math::has_plan(math, name_of(p), c, device)) return false;  // before operands are rearranged
  const Tensor stored =
      is_direct ? t.result : empty_channel_blocked(plain_shape(t.result), dtype, device);
  static_cast<void>(
      is_run(math, p, c, {in_channel_blocks(t.first), in_channel_blocks(t.second), stored}));
  if (is_direct) return true;
  const Tensor found = stored.to(t.result.dtype());
  if (!is_channel_blocked(t.result)) {
    from_channel_blocks(found, accumulate, t.result);
  } else if (accumulate) {
    add_scaled(found, 1.0, t.result);
  } else {
    t.result.copy_from(found);
  }
  return true;
}

/// f(accumulate, to) for a plain `to` in place of the result.
template <class F>
void write_in_plain_layout(bool accumulate, const Tensor& result, const F& f) {
  if (!is_channel_blocked(result)) return f(accumulate, result);
  const Tensor plain = Tensor::empty(plain_shape(result), result.dtype(), result.device());
  f(false, plain);
  to_channel_blocks(plain, accumulate, result);
}

}  // namespace

std::int64_t samples_a_call(const Conv2dProblem& p) {
  const std::int64_t sample = std::max({elements_of_x(p), elements_of_y(p), std::int64_t{1}});
  return std::clamp<std::int64_t>(most / sample, 1, std::max<std::int64_t>(p.n, 1));
}

Convolution convolution_of(const Conv2dProblem& p, ConvolutionPass pass, DType dtype,
                           std::int64_t samples) {
  dispatch_stored(dtype, name_of(p), []<class T>() {});
  LOCKSTEP_ASSERT(p.takes_all_windows());
  Convolution c{
      .pass = pass,
      .dtype = dtype,
      .rounded = dtype == DType::f32 && product_precision() != Precision::f32,
      .tf32 = dtype == DType::f32 && product_precision() == Precision::f32 && tf32_allowed(),
      .dims = p.is_3d ? 3 : 2};
  const auto extents = [&](std::int64_t outer, std::int64_t inner, std::int64_t depth,
                           std::int64_t height, std::int64_t width) {
    return IntArray<5>(p).add(outer).add(inner).add_spatial(depth, height, width);
  };
  const auto spatial = [&](std::int64_t depth, const Extents<2>& of_image) {
    return IntArray<3>(p).add_spatial(depth, of_image[0], of_image[1]).numbers();
  };
  const auto x = extents(samples, p.c, p.depth.d, p.h, p.w);
  const auto y = extents(samples, p.o, p.depth.od, p.oh, p.ow);
  c.x = x.numbers();
  c.x_strides = x.strides().numbers();
  c.y = y.numbers();
  c.y_strides = y.strides().numbers();
  c.weight = extents(p.o, p.c / p.options.groups, p.depth.kd, p.kh, p.kw).numbers();
  c.stride = spatial(p.depth.stride, p.options.stride);
  c.padding = spatial(p.depth.padding, p.options.padding);
  c.dilation = spatial(p.depth.dilation, p.options.dilation);
  c.groups = IntArray<1>(p).add(p.options.groups).numbers()[0];
  static_cast<void>(IntArray<2>(p).add(samples * elements_of_x(p)).add(samples * elements_of_y(p)));
  return c;
}

Convolution with_channels_last(Convolution c) {
  const auto strides = [&](const std::array<int, 5>& extents) {
    std::array<int, 5> result{0, 1};
    int stride = extents[1];
    for (auto d = static_cast<std::size_t>(c.dims) + 1; d > 1; --d) {
      result[d] = stride;
      stride *= extents[d];
    }
    result[0] = stride;
    return result;
  };
  c.channels_last = true;
  c.x_strides = strides(c.x);
  c.y_strides = strides(c.y);
  return c;
}

void forward_on_device(math::DeviceMath& math, const Conv2dProblem& p, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, const Tensor& y) {
  static_cast<void>(common_device(name_of(p), {&x, &weight, &bias, &y}));
  if (y.numel() == 0) return;
  if (p.has_blocks()) {
    if (weight.numel() > 0 &&
        run_channels_last(math, p, ConvolutionPass::forward, false, {x, weight, y})) {
      if (bias.defined()) add_channel_bias(bias, y);
      return;
    }
    return write_in_plain_layout(false, y, [&](bool, const Tensor& to) {
      forward_on_device(math, p.without_blocks(), in_plain_layout(x), in_plain_layout(weight), bias,
                        to);
    });
  }
  if (!p.takes_all_windows()) {
    const Conv2dProblem whole = p.with_all_windows();
    const Tensor all = empty_output(whole, y);
    forward_on_device(math, whole, x, weight, bias, all);
    PadAmounts amounts = missing_windows(whole, y);
    for (std::int64_t& amount : amounts.behind) amount = -amount;
    return pad_windows(all, amounts, y);
  }
  if (weight.numel() == 0) {
    y.zero();
  } else {
    const Tensor in = rounded(x), w = rounded(weight);
    for_each_part(p, samples_a_call(p), ConvolutionPass::forward, x.dtype(), false,
                  [&](std::int64_t begin, std::int64_t end, const Convolution& part) {
                    run_part(math, p, part, {in.slice(begin, end), w, y.slice(begin, end)});
                  });
  }
  if (bias.defined()) add_channel_bias(bias, y);
}

void backward_input_on_device(math::DeviceMath& math, const Conv2dProblem& p, const Tensor& grad_y,
                              const Tensor& weight, bool accumulate, const Tensor& grad_x) {
  static_cast<void>(common_device(name_of(p), {&grad_y, &weight, &grad_x}));
  if (grad_x.numel() == 0) return;
  if (weight.numel() == 0 || grad_y.numel() == 0) {
    if (!accumulate) grad_x.zero();
    return;
  }
  if (p.has_blocks()) {
    if (run_channels_last(math, p, ConvolutionPass::backward_input, accumulate,
                          {grad_y, weight, grad_x})) {
      return;
    }
    return write_in_plain_layout(accumulate, grad_x, [&](bool adds, const Tensor& to) {
      backward_input_on_device(math, p.without_blocks(), in_plain_layout(grad_y),
                               in_plain_layout(weight), adds, to);
    });
  }
  if (!p.takes_all_windows()) {
    const Conv2dProblem whole = p.with_all_windows();
    return backward_input_on_device(math, whole, with_missing_windows(whole, grad_y), weight,
                                    accumulate, grad_x);
  }
  const Tensor g = rounded(grad_y), w = rounded(weight);
  for_each_part(p, samples_a_call(p), ConvolutionPass::backward_input, grad_y.dtype(), accumulate,
                [&](std::int64_t begin, std::int64_t end, const Convolution& part) {
                  run_part(math, p, part, {g.slice(begin, end), w, grad_x.slice(begin, end)});
                });
}

void backward_weight_on_device(math::DeviceMath& math, const Conv2dProblem& p, const Tensor& grad_y,
                               const Tensor& x, bool accumulate, const Tensor& grad_weight,
                               std::int64_t together) {
  static_cast<void>(common_device(name_of(p), {&grad_y, &x, &grad_weight}));
  if (grad_weight.numel() == 0) return;
  if (grad_y.numel() == 0 || x.numel() == 0) {
    if (!accumulate) grad_weight.zero();
    return;
  }
  if (p.has_blocks()) {
    if (run_channels_last(math, p, ConvolutionPass::backward_weight, accumulate,
                          {grad_y, x, grad_weight})) {
      return;
    }
    return backward_weight_on_device(math, p.without_blocks(), in_plain_layout(grad_y),
                                     in_plain_layout(x), accumulate, grad_weight, together);
  }
  if (!p.takes_all_windows()) {
    const Conv2dProblem whole = p.with_all_windows();
    return backward_weight_on_device(math, whole, with_missing_windows(whole, grad_y), x,
                                     accumulate, grad_weight,
                                     std::min(together, samples_a_call(whole)));
  }
  if (is_half(grad_weight.dtype()) && together < p.n) {
    const Tensor sums = accumulate ? grad_weight.to(DType::f32)
                                   : Tensor::empty(grad_weight.shape(), DType::f32, x.device());
    backward_weight_on_device(math, p, grad_y, x, accumulate, sums, together);
    return convert(sums, grad_weight);
  }
  const Tensor g = rounded(grad_y), in = rounded(x);
  for_each_part(p, together, ConvolutionPass::backward_weight, x.dtype(), accumulate,
                [&](std::int64_t begin, std::int64_t end, const Convolution& part) {
                  run_part(math, p, part, {g.slice(begin, end), in.slice(begin, end), grad_weight});
                });
}

}  // namespace lockstep::detail
