#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

enum class Arithmetic : std::uint8_t {
  add,
  subtract,
  multiply,
  divide,
  equal,        ///< 1 or 0
  atan2,        ///< the angle of the point (b, a)
  atan2_slope,  ///< b / (a^2 + b^2), without overflow; 0 where both are
};

/// out (+)= scale (a op b), elementwise; a and b are repeated to out's shape (broadcast.hpp). f32
/// or f64, one dtype.
void arithmetic(Arithmetic op, const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out,
                double scale = 1.0);

/// y (+)= x where mask is false, `value` where it is true; mask (bool) is repeated to x's shape.
void masked_fill_copy(const Tensor& x, const Tensor& mask, double value, bool accumulate,
                      const Tensor& y);

}  // namespace lockstep
