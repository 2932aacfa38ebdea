#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Images in channel blocks: x[N,C,H,W] held as a tensor [N, C/B, H, W, B], so that B neighbouring
// channels of one pixel fill a vector register. Convolutions want it so; a network that keeps it
// from layer to layer saves a rearrangement on each side of each of them.

namespace lockstep {

/// B on this processor: 16 with AVX-512, 8 with AVX2, or 0 where convolutions know no such layout.
[[nodiscard]] std::int64_t channel_block();

/// Whether x[N,C,H,W] can be held in blocks here: f32 on the host, and C a multiple of B.
[[nodiscard]] bool fits_channel_blocks(const Shape& x, DType dtype, Device device);

/// Whether a shape is that of an image in blocks: five dimensions, the last of them B.
[[nodiscard]] bool is_channel_blocked(const Shape& shape);

/// [N, C/B, H, W, B] for [N,C,H,W], and back. Throws ShapeError for other shapes.
[[nodiscard]] Shape channel_blocked_shape(const Shape& plain);
[[nodiscard]] Shape plain_shape(const Shape& blocked);

/// y (+)= x in the other layout; f32 on the host.
void to_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y);
void from_channel_blocks(const Tensor& x, bool accumulate, const Tensor& y);

}  // namespace lockstep
