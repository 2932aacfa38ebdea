#pragma once
#include <lockstep/tensor/tensor.hpp>

// Private to channel_blocks.cpp, whose contracts these are: on a GPU or its stand-in, of f32 and of
// 16 bits.

namespace lockstep::detail {

void to_channels_last(const Tensor& x, bool accumulate, const Tensor& y);
void from_channels_last(const Tensor& x, bool accumulate, const Tensor& y);

}  // namespace lockstep::detail
