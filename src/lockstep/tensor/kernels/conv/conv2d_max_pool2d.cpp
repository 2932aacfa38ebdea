#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d.hpp>

#include <algorithm>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d_plan.hpp>

namespace lockstep {
namespace detail {

ConvPoolPlan::ConvPoolPlan(const Shape& x, const Shape& weight, const Conv2dOptions& conv,
                           const SquareWindow& window)
    : samples(x[0]),
      channels(x[1]),
      height(x[2]),
      width(x[3]),
      outputs(weight[0]),
      kernel_h(weight[2]),
      kernel_w(weight[3]),
      taps(channels * kernel_h * kernel_w),
      pad_h(conv.padding[0]),
      pad_w(conv.padding[1]),
      pool(window.kernel),
      pool_reciprocal(static_cast<std::int32_t>((65536 + pool - 1) / pool)),
      pooled_h((height + 2 * pad_h - kernel_h + 1) / pool),
      pooled_w((width + 2 * pad_w - kernel_w + 1) / pool),
      area(pooled_h * pooled_w),
      rows(pool * pooled_h + kernel_h - 1),
      columns(pool * pooled_w + kernel_w - 1) {}

Image stage_sample(const ConvPoolPlan& plan, const float* x, std::int64_t n, float* scratch) {
  const float* sample = x + n * plan.sample_numel();
  if (plan.pad_h == 0 && plan.pad_w == 0 &&
      (plan.samples - n - 1) * plan.sample_numel() >= overread) {
    return {sample, plan.width, plan.height * plan.width};
  }
  const std::int64_t left = std::min(plan.pad_w, plan.columns);
  const std::int64_t inside = std::clamp<std::int64_t>(plan.columns - left, 0, plan.width);
  std::fill_n(scratch, plan.staged_numel(), 0.0F);
  for (std::int64_t c = 0; c < plan.channels; ++c) {
    for (std::int64_t row = 0; row < plan.rows; ++row) {
      const std::int64_t h = row - plan.pad_h;
      if (h < 0 || h >= plan.height) continue;
      std::copy_n(sample + (c * plan.height + h) * plan.width, inside,
                  scratch + (c * plan.rows + row) * plan.columns + left);
    }
  }
  return {scratch, plan.columns, plan.rows * plan.columns};
}

void check_operand(const char* what, const Tensor& t, const Shape& shape, DType dtype) {
  if (!t.defined() || t.shape() != shape || t.dtype() != dtype ||
      t.device().type != DeviceType::host) {
    throw ShapeError("conv2d_max_pool2d_relu: " + std::string(what) + " must be " +
                     std::string(name_of(dtype)) + to_string(shape) + " on host, not " +
                     (t.defined() ? describe(t) : "undefined"));
  }
}

void check_conv_pool(const Conv2dMaxPool2dInputs& in) {
  if (!in.x.defined() || !in.weight.defined() ||
      !conv2d_max_pool2d_supported(in.x.shape(), in.weight.shape(), in.conv, in.pool,
                                   in.x.dtype())) {
    throw ShapeError("conv2d_max_pool2d_relu does not take x " +
                     (in.x.defined() ? describe(in.x) : "undefined") + " with weight " +
                     (in.weight.defined() ? describe(in.weight) : "undefined") +
                     " and these options; use conv2d, max_pool2d and relu one by one");
  }
  check_operand("x", in.x, in.x.shape(), DType::f32);
  check_operand("weight", in.weight, in.weight.shape(), DType::f32);
  if (in.bias.defined()) check_operand("bias", in.bias, {in.weight.size(0)}, DType::f32);
  if (in.channel_scale.defined()) {
    check_operand("channel_scale", in.channel_scale, {in.x.size(0), in.weight.size(0)}, DType::f32);
  }
}

}  // namespace detail

bool conv2d_max_pool2d_supported(const Shape& x, const Shape& weight, const Conv2dOptions& conv,
                                 const SquareWindow& pool, DType dtype) {
  if (dtype != DType::f32 || x.dims() != 4 || weight.dims() != 4 || x[1] != weight[1]) return false;
  if (x[1] < 1 || weight[0] < 1 || weight[2] < 1 || weight[3] < 1) return false;
  if (conv.stride != 1 || conv.dilation != 1 || conv.groups != 1 || conv.padding[0] < 0 ||
      conv.padding[1] < 0) {
    return false;
  }
  // One byte holds the position in a window.
  if (pool.kernel < 1 || pool.kernel > 15 || pool.stride != pool.kernel || pool.padding != 0) {
    return false;
  }
  const detail::ConvPoolPlan plan(x, weight, conv, pool);
  if (plan.height + 2 * plan.pad_h < plan.kernel_h || plan.width + 2 * plan.pad_w < plan.kernel_w ||
      plan.pooled_h < 1 || plan.pooled_w < 1) {
    return false;
  }
  // Beyond the second-level cache a library's blocked convolution is faster.
  constexpr std::int64_t cache_bytes = 512 << 10;
  const std::int64_t patches = plan.strips() * plan.strip();
  return patches <= cache_bytes / static_cast<std::int64_t>(sizeof(float));
}

Shape conv2d_max_pool2d_shape(const Shape& x, const Shape& weight, const Conv2dOptions& conv,
                              const SquareWindow& pool) {
  const detail::ConvPoolPlan plan(x, weight, conv, pool);
  return {plan.samples, plan.outputs, plan.pooled_h, plan.pooled_w};
}

}  // namespace lockstep
