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

/// out (+)= scale (a op b), elementwise; a and b are repeated to out's shape (broadcast.hpp). One
/// floating dtype, for add to divide of 16 bits too: computed in f32 and rounded once. `add` also
/// takes one operand of 16 bits beside an f32 one and an f32 result, all of one shape.
void arithmetic(Arithmetic op, const Tensor& a, const Tensor& b, bool accumulate, const Tensor& out,
                double scale = 1.0);

/// out (+)= a op number, elementwise, for add, multiply and divide; the number is rounded to a's
/// dtype, or to f32 for one of 16 bits. One shape and floating dtype.
void arithmetic(Arithmetic op, const Tensor& a, double number, bool accumulate, const Tensor& out);

/// out = number / x, elementwise; as above.
void number_over(double number, const Tensor& x, const Tensor& out);

/// out (+)= scale (a b / c), elementwise, with no rounding to 16 bits in between; c is repeated to
/// the shape of the others. One floating dtype.
void multiply_divide(const Tensor& a, const Tensor& b, const Tensor& c, bool accumulate,
                     const Tensor& out, double scale = 1.0);

/// y (+)= x where mask is false, `value` where it is true; mask (bool) is repeated to x's shape.
/// One floating dtype.
void masked_fill_copy(const Tensor& x, const Tensor& mask, double value, bool accumulate,
                      const Tensor& y);

}  // namespace lockstep
