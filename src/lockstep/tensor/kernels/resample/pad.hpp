#pragma once
#include <array>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// The padding: a number, the elements mirrored at the edge, the edge's elements, or the elements
/// from the other side.
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };

/// How many elements are put before and behind each dimension, the last one first; negative ones
/// are taken away (constant only).
struct PadAmounts {
  std::array<std::int64_t, Shape::max_dims> before{}, behind{};
};

/// y = x padded; y's extents are x's with the amounts. f32 or f64, on any
/// device.
void pad_forward(const Tensor& x, const PadAmounts& amounts, PadMode mode, double value,
                 const Tensor& y);
/// grad_x (+)= the sums of grad_y over all positions of each element.
void pad_backward(const Tensor& grad_y, const PadAmounts& amounts, PadMode mode, bool accumulate,
                  const Tensor& grad_x);

}  // namespace lockstep
