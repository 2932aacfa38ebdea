#pragma once
#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// Elementwise, broadcast; the gradient of a repeated operand is summed over its repetitions. A
/// 16-bit operand beside an f32 one, or beside one of the other 16-bit type, gives an f32 result;
/// each gradient has its operand's dtype.
[[nodiscard]] Variable add(const Variable& a, const Variable& b);
[[nodiscard]] Variable sub(const Variable& a, const Variable& b);
[[nodiscard]] Variable mul(const Variable& a, const Variable& b);
[[nodiscard]] Variable div(const Variable& a, const Variable& b);

/// With a number, rounded to x's dtype, or to f32 for one of 16 bits.
[[nodiscard]] Variable add(const Variable& x, double number);
[[nodiscard]] Variable mul(const Variable& x, double number);
[[nodiscard]] Variable div(const Variable& x, double number);
[[nodiscard]] Variable sub(double number, const Variable& x);
[[nodiscard]] Variable div(double number, const Variable& x);

[[nodiscard]] inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
[[nodiscard]] inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
[[nodiscard]] inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
[[nodiscard]] inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
[[nodiscard]] inline Variable operator+(const Variable& x, double number) { return add(x, number); }
[[nodiscard]] inline Variable operator*(const Variable& x, double number) { return mul(x, number); }
[[nodiscard]] inline Variable operator-(const Variable& x, double n) { return add(x, -n); }
[[nodiscard]] inline Variable operator/(const Variable& x, double n) { return div(x, n); }
[[nodiscard]] inline Variable operator+(double number, const Variable& x) { return add(x, number); }
[[nodiscard]] inline Variable operator*(double number, const Variable& x) { return mul(x, number); }
[[nodiscard]] inline Variable operator-(double number, const Variable& x) { return sub(number, x); }
[[nodiscard]] inline Variable operator/(double number, const Variable& x) { return div(number, x); }
[[nodiscard]] inline Variable operator-(const Variable& x) { return mul(x, -1.0); }

/// Elementwise. The gradient of abs is 0 at 0.
[[nodiscard]] Variable exp(const Variable& x);
[[nodiscard]] Variable log(const Variable& x);
[[nodiscard]] Variable sqrt(const Variable& x);
[[nodiscard]] Variable rsqrt(const Variable& x);
[[nodiscard]] Variable reciprocal(const Variable& x);
[[nodiscard]] Variable abs(const Variable& x);
[[nodiscard]] Variable sin(const Variable& x);
[[nodiscard]] Variable cos(const Variable& x);
/// The error function, and its complement 1 - erf(x), accurate where that is small.
[[nodiscard]] Variable erf(const Variable& x);
[[nodiscard]] Variable erfc(const Variable& x);
/// The angle of the point (x, y) with the x axis, in (-pi, pi]; broadcast. Its gradient is 0 at
/// (0, 0).
[[nodiscard]] Variable atan2(const Operand& y, const Operand& x);

/// x to the power `exponent`: NaN for a negative x unless the exponent is whole.
[[nodiscard]] Variable pow(const Variable& x, double exponent);

/// x limited to [min, max]; its gradient is zero outside and at the limits. If min > max, max
/// counts.
[[nodiscard]] Variable clamp(const Variable& x, double min, double max);
[[nodiscard]] Variable clamp_min(const Variable& x, double min);
[[nodiscard]] Variable clamp_max(const Variable& x, double max);

/// x where mask is false, `value` where it is true; mask (bool) is broadcast to x's shape.
[[nodiscard]] Variable masked_fill(const Variable& x, const Tensor& mask, double value);

/// x converted to another floating dtype; the gradient is converted back.
[[nodiscard]] Variable to(const Variable& x, DType dtype);

}  // namespace lockstep
