#pragma once
#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// Elementwise, broadcast; the gradient of a repeated operand is summed over its repetitions.
[[nodiscard]] Variable add(const Variable& a, const Variable& b);
[[nodiscard]] Variable sub(const Variable& a, const Variable& b);
[[nodiscard]] Variable mul(const Variable& a, const Variable& b);
[[nodiscard]] Variable div(const Variable& a, const Variable& b);

/// With a number, rounded to x's dtype.
[[nodiscard]] Variable add(const Variable& x, double number);
[[nodiscard]] Variable mul(const Variable& x, double number);
[[nodiscard]] Variable sub(double number, const Variable& x);
[[nodiscard]] Variable div(double number, const Variable& x);

[[nodiscard]] inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
[[nodiscard]] inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
[[nodiscard]] inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
[[nodiscard]] inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
[[nodiscard]] inline Variable operator+(const Variable& x, double number) { return add(x, number); }
[[nodiscard]] inline Variable operator*(const Variable& x, double number) { return mul(x, number); }
[[nodiscard]] inline Variable operator-(const Variable& x, double n) { return add(x, -n); }
[[nodiscard]] inline Variable operator/(const Variable& x, double n) { return mul(x, 1.0 / n); }
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
/// The error function.
[[nodiscard]] Variable erf(const Variable& x);

/// x to the power `exponent`: NaN for a negative x unless the exponent is whole.
[[nodiscard]] Variable pow(const Variable& x, double exponent);

/// The nearest number in [min, max]; without gradient outside. max wins where min is larger.
[[nodiscard]] Variable clamp(const Variable& x, double min, double max);
[[nodiscard]] Variable clamp_min(const Variable& x, double min);
[[nodiscard]] Variable clamp_max(const Variable& x, double max);

/// a where `condition` (bool) is true, b where it is false; all three are broadcast.
[[nodiscard]] Variable where(const Tensor& condition, const Variable& a, const Variable& b);

/// x where mask is false, `value` where it is true; mask (bool) is broadcast to x's shape.
[[nodiscard]] Variable masked_fill(const Variable& x, const Tensor& mask, double value);

/// x converted to another floating dtype; the gradient is converted back.
[[nodiscard]] Variable to(const Variable& x, DType dtype);

}  // namespace lockstep
