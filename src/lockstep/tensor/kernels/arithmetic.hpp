#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

enum class Arithmetic : std::uint8_t { add, subtract, multiply, divide, equal };

/// out (+)= scale (a op b), elementwise; a and b are repeated to out's shape (broadcast.hpp). equal
/// is 1 or 0. f32 or f64, one dtype.
void arithmetic(Arithmetic op, const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out,
                double scale = 1.0);

/// y (+)= x where mask is false, `value` where it is true; mask (bool) is repeated to x's shape.
void masked_fill_copy(const Tensor& x, const Tensor& mask, double value, bool accumulate,
                      const Tensor& y);

}  // namespace lockstep
