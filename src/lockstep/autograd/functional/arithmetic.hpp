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

[[nodiscard]] inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
[[nodiscard]] inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
[[nodiscard]] inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
[[nodiscard]] inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
[[nodiscard]] inline Variable operator+(const Variable& x, double number) { return add(x, number); }
[[nodiscard]] inline Variable operator*(const Variable& x, double number) { return mul(x, number); }

/// Elementwise.
[[nodiscard]] Variable exp(const Variable& x);
[[nodiscard]] Variable log(const Variable& x);
[[nodiscard]] Variable sqrt(const Variable& x);

/// x where mask is false, `value` where it is true; mask (bool) is broadcast to x's shape.
[[nodiscard]] Variable masked_fill(const Variable& x, const Tensor& mask, double value);

/// x converted to another floating dtype; the gradient is converted back.
[[nodiscard]] Variable to(const Variable& x, DType dtype);

}  // namespace lockstep
