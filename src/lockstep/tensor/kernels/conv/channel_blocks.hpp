#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Images in channel blocks: x[N,C,H,W] stored as a tensor [N, C/B, H, W, B], as its layout()
// states, so that B neighbouring channels of one pixel fill a vector register. Convolutions want it
// so; a network that keeps it from layer to layer saves a rearrangement on each side of each of
// them.

namespace lockstep {

/// B on this processor: 16 with AVX-512, 8 with AVX2, or 0 if convolutions do not support this
/// layout.
[[nodiscard]] std::int64_t channel_block();

/// Whether x[N,C,H,W] can be stored in blocks here: f32 on the host, and C a multiple of B.
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

}  // namespace lockstep
