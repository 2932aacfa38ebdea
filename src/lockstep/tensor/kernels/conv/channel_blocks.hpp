#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Images in channel blocks: x[N,C,H,W] stored as a tensor [N, C/B, H, W, B], as its layout()
// states. On the host B neighbouring channels of one pixel fill a vector register; on a GPU B is C,
// all channels of a pixel (NHWC, "channels last"), as tensor cores take them. Convolutions want it
// so; a network that keeps it from layer to layer saves a rearrangement on each side of each of
// them.

namespace lockstep {

/// B on this processor: 16 with AVX-512, 8 with AVX2, or 0 if convolutions do not support this
/// layout.
[[nodiscard]] std::int64_t channel_block();

/// Whether x[N,C,H,W] can be stored in blocks here. On the host: f32, and C a multiple of B. Where
/// a GPU's library computes (math/device_math.hpp): f32 or 16 bits, and C a multiple of 8.
[[nodiscard]] bool fits_channel_blocks(const Shape& x, DType dtype, Device device);

[[nodiscard]] inline bool is_channel_blocked(const Tensor& x) {
  return x.layout() == Layout::channel_blocks;
}

/// A new image in blocks, with uninitialized elements, for x[N,C,H,W]. Throws ShapeError unless x
/// fits_channel_blocks.
[[nodiscard]] Tensor empty_channel_blocked(const Shape& x, DType dtype, Device device);
/// [N,C,H,W] of an image in either layout.
[[nodiscard]] Shape plain_shape(const Tensor& x);

/// y (+)= x in the other layout. Throws ShapeError unless the layouts are so and the shapes agree.
void to_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y);
void from_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y);

/// x in blocks, or in plain layout: x itself if it is so already, else a copy. Images of one pixel
/// share storage on a GPU, where both layouts are the same.
[[nodiscard]] Tensor in_channel_blocks(const Tensor& x);
[[nodiscard]] Tensor in_plain_layout(const Tensor& x);

}  // namespace lockstep
