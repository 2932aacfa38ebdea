#include <lockstep/tensor/kernels/channel_blocks.hpp>

#include <dnnl.h>

#include <lockstep/base/error.hpp>

namespace lockstep {

std::int64_t channel_block() {
  static const std::int64_t block = [] {
    const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    const auto has = [&](dnnl_cpu_isa_t wanted) { return (isa & wanted) == wanted; };
    return has(dnnl_cpu_isa_avx512_core) ? 16 : has(dnnl_cpu_isa_avx2) ? 8 : 0;
  }();
  return block;
}

bool fits_channel_blocks(const Shape& x, DType dtype, Device device) {
  return channel_block() > 0 && dtype == DType::f32 && device.type == DeviceType::host &&
         x.dims() == 4 && x[1] > 0 && x[1] % channel_block() == 0;
}

bool is_channel_blocked(const Shape& shape) {
  return shape.dims() == 5 && channel_block() > 0 && shape[4] == channel_block();
}

Shape channel_blocked_shape(const Shape& plain) {
  const std::int64_t block = channel_block();
  if (block == 0 || plain.dims() != 4 || plain[1] % block != 0) {
    throw ShapeError(to_string(plain) + " cannot be held in blocks of " + std::to_string(block) +
                     " channels");
  }
  return {plain[0], plain[1] / block, plain[2], plain[3], block};
}

Shape plain_shape(const Shape& blocked) {
  if (!is_channel_blocked(blocked)) {
    throw ShapeError(to_string(blocked) + " is not an image in blocks of " +
                     std::to_string(channel_block()) + " channels");
  }
  return {blocked[0], blocked[1] * blocked[4], blocked[2], blocked[3]};
}

namespace {

/// Calls f(plain offset, blocked offset) for every element of an image in blocks.
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

}  // namespace

void to_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y) {
  const auto* in = static_cast<const float*>(x.data());
  auto* out = static_cast<float*>(y.data());
  for_each_place(y.shape(), [&](std::int64_t plain, std::int64_t blocked) {
    out[blocked] = (accumulate ? out[blocked] : 0.0F) + in[plain];
  });
}

void from_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y) {
  const auto* in = static_cast<const float*>(x.data());
  auto* out = static_cast<float*>(y.data());
  for_each_place(x.shape(), [&](std::int64_t plain, std::int64_t blocked) {
    out[plain] = (accumulate ? out[plain] : 0.0F) + in[blocked];
  });
}

}  // namespace lockstep
