#include <lockstep/tensor/kernels/conv/conv_device.hpp>

#include <algorithm>
#include <limits>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>
#include <lockstep/tensor/kernels/conv/conv_task.hpp>
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

/// Calls f(begin, end, convolution) for parts of the batch, each as many samples as one call takes.
template <class F>
void for_each_part(const Conv2dProblem& p, ConvolutionPass pass, DType dtype, bool accumulate,
                   const F& f) {
  const std::int64_t together = samples_a_call(p);
  for (std::int64_t begin = 0; begin < p.n; begin += together) {
    const std::int64_t end = std::min(begin + together, p.n);
    Convolution part = convolution_of(p, pass, dtype, end - begin);
    // All parts add to one gradient of the weight.
    part.accumulate = accumulate || (pass == ConvolutionPass::backward_weight && begin > 0);
    f(begin, end, part);
  }
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

/// `grad_y` with zeros for the windows that it leaves out.
Tensor with_missing_windows(const Conv2dProblem& whole, const Tensor& grad_y) {
  Tensor all = empty_output(whole, grad_y);
  pad_forward(grad_y, missing_windows(whole, grad_y), PadMode::constant, 0.0, all);
  return all;
}

}  // namespace

std::int64_t samples_a_call(const Conv2dProblem& p) {
  const std::int64_t sample = std::max({elements_of_x(p), elements_of_y(p), std::int64_t{1}});
  return std::clamp<std::int64_t>(most / sample, 1, std::max<std::int64_t>(p.n, 1));
}

Convolution convolution_of(const Conv2dProblem& p, ConvolutionPass pass, DType dtype,
                           std::int64_t samples) {
  dispatch_floating(dtype, name_of(p), []<class T>() {});
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

void forward_on_device(math::DeviceMath& math, const Conv2dProblem& p, const Tensor& x,
                       const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const Device device = common_device(name_of(p), {&x, &weight, &bias, &y});
  if (y.numel() == 0) return;
  if (!p.takes_all_windows()) {
    const Conv2dProblem whole = p.with_all_windows();
    const Tensor all = empty_output(whole, y);
    forward_on_device(math, whole, x, weight, bias, all);
    PadAmounts amounts = missing_windows(whole, y);
    for (std::int64_t& amount : amounts.behind) amount = -amount;
    pad_forward(all, amounts, PadMode::constant, 0.0, y);
    return;
  }
  if (weight.numel() == 0) {
    y.zero();
  } else {
    const Tensor in = rounded(x), w = rounded(weight);
    for_each_part(p, ConvolutionPass::forward, x.dtype(), false,
                  [&](std::int64_t begin, std::int64_t end, const Convolution& part) {
                    math::run(math, name_of(p), part,
                              {in.slice(begin, end).kernel_data(), w.kernel_data(),
                               y.slice(begin, end).kernel_data()},
                              device);
                  });
  }
  if (bias.defined()) add_channel_bias(bias, y);
}

void backward_input_on_device(math::DeviceMath& math, const Conv2dProblem& p, const Tensor& grad_y,
                              const Tensor& weight, bool accumulate, const Tensor& grad_x) {
  const Device device = common_device(name_of(p), {&grad_y, &weight, &grad_x});
  if (grad_x.numel() == 0) return;
  if (weight.numel() == 0 || grad_y.numel() == 0) {
    if (!accumulate) grad_x.zero();
    return;
  }
  if (!p.takes_all_windows()) {
    const Conv2dProblem whole = p.with_all_windows();
    return backward_input_on_device(math, whole, with_missing_windows(whole, grad_y), weight,
                                    accumulate, grad_x);
  }
  const Tensor g = rounded(grad_y), w = rounded(weight);
  for_each_part(p, ConvolutionPass::backward_input, grad_y.dtype(), accumulate,
                [&](std::int64_t begin, std::int64_t end, const Convolution& part) {
                  math::run(math, name_of(p), part,
                            {g.slice(begin, end).kernel_data(), w.kernel_data(),
                             grad_x.slice(begin, end).kernel_data()},
                            device);
                });
}

void backward_weight_on_device(math::DeviceMath& math, const Conv2dProblem& p, const Tensor& grad_y,
                               const Tensor& x, bool accumulate, const Tensor& grad_weight) {
  const Device device = common_device(name_of(p), {&grad_y, &x, &grad_weight});
  if (grad_weight.numel() == 0) return;
  if (grad_y.numel() == 0 || x.numel() == 0) {
    if (!accumulate) grad_weight.zero();
    return;
  }
  if (!p.takes_all_windows()) {
    const Conv2dProblem whole = p.with_all_windows();
    return backward_weight_on_device(math, whole, with_missing_windows(whole, grad_y), x,
                                     accumulate, grad_weight);
  }
  const Tensor g = rounded(grad_y), in = rounded(x);
  for_each_part(p, ConvolutionPass::backward_weight, x.dtype(), accumulate,
                [&](std::int64_t begin, std::int64_t end, const Convolution& part) {
                  math::run(math, name_of(p), part,
                            {g.slice(begin, end).kernel_data(), in.slice(begin, end).kernel_data(),
                             grad_weight.kernel_data()},
                            device);
                });
}

}  // namespace lockstep::detail
