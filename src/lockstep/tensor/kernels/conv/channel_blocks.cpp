#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/math/onednn.hpp>

namespace lockstep {

std::int64_t channel_block() {
  static const std::int64_t block = [] {
    using detail::onednn::computes_with;
    return computes_with(dnnl_cpu_isa_avx512_core) ? 16 : computes_with(dnnl_cpu_isa_avx2) ? 8 : 0;
  }();
  return block;
}

bool fits_channel_blocks(const Shape& x, DType dtype, Device device) {
  return channel_block() > 0 && dtype == DType::f32 && device.type == DeviceType::host &&
         x.dims() == 4 && x[1] > 0 && x[1] % channel_block() == 0;
}

Tensor empty_channel_blocked(const Shape& x, DType dtype, Device device) {
  const std::int64_t block = channel_block();
  if (!fits_channel_blocks(x, dtype, device)) {
    throw ShapeError(std::string(name_of(dtype)) + to_string(x) + " on " + to_string(device) +
                     " cannot be converted to channel blocks: they hold images f32[N, C, H, W] on "
                     "the host, with C a multiple of " +
                     std::to_string(block));
  }
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

}  // namespace lockstep
