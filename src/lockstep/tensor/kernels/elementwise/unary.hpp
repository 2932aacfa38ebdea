#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Functions of one element; f32 or f64, tensors of one shape; NaN stays NaN. A function is a row of
// a table: its value and its derivative (kernels/elementwise/unary_math.cpp,
// kernels/elementwise/unary_activation.cpp).

namespace lockstep {

enum class Unary : std::uint8_t {
  // Mathematics: kernels/elementwise/unary_math.cpp.
  abs,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  sin,
  cos,
  erf,
  erfc,
  pow,    ///< x^a
  clamp,  ///< min(max(x, a), b); no gradient passes at a and at b. NaN is no bound
  // Activations: kernels/elementwise/unary_activation.cpp.
  leaky_relu,   ///< x, or a x where x <= 0
  elu,          ///< b x, or a b (exp(c x) - 1) where x <= 0
  softplus,     ///< log(1 + exp(a x)) / a; x where a x > b
  softsign,     ///< x / (1 + |x|)
  hardtanh,     ///< min(max(x, a), b); no gradient passes at a and at b
  hardsigmoid,  ///< min(max(x + 3, 0), 6) / 6
  hardswish,    ///< x hardsigmoid(x)
  mish,         ///< x tanh(log(1 + exp(x))) (Misra 2019, arXiv:1908.08681)
  log_sigmoid,  ///< -log(1 + exp(-x))
};

/// A function with its numbers.
struct UnaryFunction {
  Unary kind;
  double a = 0.0, b = 0.0, c = 0.0;
};

[[nodiscard]] const char* name_of(Unary kind) noexcept;

/// Whether the derivative is worked out from the result rather than from x.
[[nodiscard]] bool is_known_by_result(Unary kind) noexcept;

/// y = f(x).
void unary_forward(const UnaryFunction& f, const Tensor& x, const Tensor& y);

/// grad_x (+)= f'(x) grad_y, where `saved` is x, or the result if f' is computed from that.
void unary_backward(const UnaryFunction& f, const Tensor& grad_y, const Tensor& saved,
                    bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
