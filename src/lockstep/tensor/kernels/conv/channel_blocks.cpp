#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channels_last_device.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/math/onednn.hpp>

namespace lockstep {
namespace {

/// What C is a multiple of in blocks, or 0: tensor cores take 16 bytes of 16 bits at a time.
std::int64_t multiple(DType dtype, Device device) {
  if (math::device_math(device)) return dtype == DType::f32 || is_half(dtype) ? 8 : 0;
  return dtype == DType::f32 && device.type == DeviceType::host ? channel_block() : 0;
}

}  // namespace

std::int64_t channel_block() {
  static const std::int64_t block = [] {
    using detail::onednn::computes_with;
    return computes_with(dnnl_cpu_isa_avx512_core) ? 16 : computes_with(dnnl_cpu_isa_avx2) ? 8 : 0;
  }();
  return block;
}

bool fits_channel_blocks(const Shape& x, DType dtype, Device device) {
  const std::int64_t channels = multiple(dtype, device);
  return channels > 0 && x.dims() == 4 && x[1] > 0 && x[1] % channels == 0;
}

Tensor empty_channel_blocked(const Shape& x, DType dtype, Device device) {
  if (!fits_channel_blocks(x, dtype, device)) {
    throw ShapeError(std::string(name_of(dtype)) + to_string(x) + " on " + to_string(device) +
                     " cannot be converted to channel blocks: they hold images [N, C, H, W], on "
                     "the host of f32 with C a multiple of " +
                     std::to_string(channel_block()) +
                     ", on a GPU of f32, bf16 or f16 with C a multiple of 8");
  }
  const std::int64_t block = device.type == DeviceType::host ? channel_block() : x[1];
  return Tensor::empty({x[0], x[1] / block, x[2], x[3], block}, dtype, device)
      .with_layout(Layout::channel_blocks);
}

Shape plain_shape(const Tensor& x) {
  const Shape& s = x.shape();
  return is_channel_blocked(x) ? Shape{s[0], s[1] * s[4], s[2], s[3]} : s;
}

namespace {

/// Calls f(plain offset, blocked offset) for every element of an image in channel blocks.
template <class F>
void for_each_place(const Shape& blocked, const F& f) {
  const std::int64_t groups = blocked[0] * blocked[1], positions = blocked[2] * blocked[3];
  const std::int64_t block = blocked[4];
  for (std::int64_t g = 0; g < groups; ++g) {
    const std::int64_t start = g * positions * block;
    for (std::int64_t p = 0; p < positions; ++p) {
      for (std::int64_t b = 0; b < block; ++b) f(start + b * positions + p, start + p * block + b);
    }
  }
}

void expect_rearrangement(const Tensor& x, Layout from, const Tensor& y, Layout to) {
  if (x.layout() == from && y.layout() == to && x.dtype() == y.dtype() &&
      plain_shape(x) == plain_shape(y)) {
    return;
  }
  throw ShapeError("cannot rearrange " + describe(x) + " as " + describe(y));
}

}  // namespace

void to_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y) {
  expect_rearrangement(x, Layout::plain, y, Layout::channel_blocks);
  if (math::device_math(x.device())) return detail::to_channels_last(x, accumulate, y);
  host_task(
      "to_channel_blocks",
      [accumulate](const HostArray& x, const HostArray& y) {
        const auto* in = static_cast<const float*>(x.data());
        auto* out = static_cast<float*>(y.data());
        for_each_place(y.shape(), [&](std::int64_t plain, std::int64_t blocked) {
          out[blocked] = (accumulate ? out[blocked] : 0.0F) + in[plain];
        });
      },
      x, y);
}

void from_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y) {
  expect_rearrangement(x, Layout::channel_blocks, y, Layout::plain);
  if (math::device_math(x.device())) return detail::from_channels_last(x, accumulate, y);
  host_task(
      "from_channel_blocks",
      [accumulate](const HostArray& x, const HostArray& y) {
        const auto* in = static_cast<const float*>(x.data());
        auto* out = static_cast<float*>(y.data());
        for_each_place(x.shape(), [&](std::int64_t plain, std::int64_t blocked) {
          out[plain] = (accumulate ? out[plain] : 0.0F) + in[blocked];
        });
      },
      x, y);
}

Tensor in_channel_blocks(const Tensor& x) {
  if (is_channel_blocked(x)) return x;
  const bool is_one_pixel = x.device().type != DeviceType::host && x.size(2) * x.size(3) == 1;
  if (is_one_pixel && fits_channel_blocks(x.shape(), x.dtype(), x.device())) {
    return x.reshape({x.size(0), 1, 1, 1, x.size(1)}).with_layout(Layout::channel_blocks);
  }
  Tensor y = empty_channel_blocked(x.shape(), x.dtype(), x.device());
  to_channel_blocks(x, false, y);
  return y;
}

Tensor in_plain_layout(const Tensor& x) {
  if (!is_channel_blocked(x)) return x;
  const Shape shape = plain_shape(x);
  if (x.device().type != DeviceType::host && shape[2] * shape[3] == 1) {
    return x.with_layout(Layout::plain).reshape(shape);
  }
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  from_channel_blocks(x, false, y);
  return y;
}

}  // namespace lockstep
