#pragma once
// exp, tanh and what is made of them, for loops that the compiler turns into vectors: no branch, no
// table, no call, and the same bits in a vector of any width as alone. Float only: double is the
// standard library's. NaN, infinities, subnormal numbers and -0 come out as IEEE 754 wants them.
//
// The polynomials are minimax fits (Remez exchange in 40 digits); the errors stated are the largest
// over every float of the range (tests/tensor/math_functions_test.cpp), in units in the last place
// of the result.

#include <Kokkos_Macros.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace lockstep::math {

namespace detail {

KOKKOS_INLINE_FUNCTION std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

KOKKOS_INLINE_FUNCTION float from_bits(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

/// a b + c, in one rounding where the processor has it. Spelled out, so that a loop's vectors and
/// its last elements cannot differ.
KOKKOS_INLINE_FUNCTION float multiply_add(float a, float b, float c) {
#if defined(FP_FAST_FMAF) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// x in [-104, 89]: below exp(x) is 0, above infinite. NaN stays.
KOKKOS_INLINE_FUNCTION float clamp_exponent(float x) {
  x = x < -104.0F ? -104.0F : x;
  return x > 89.0F ? 89.0F : x;
}

/// x = n ln 2 + r, |r| <= ln 2 / 2, for |x| <= 104 (Cody and Waite 1980: ln 2 in two parts, the
/// products with the first are exact).
struct Reduced {
  std::uint32_t n;  ///< two's complement
  float r;
};
KOKKOS_INLINE_FUNCTION Reduced reduce(float x, float x_low = 0.0F) {
  constexpr float to_integer = 12582912.0F;  // 1.5 2^23: the sum has no room for a fraction
  const float shifted = multiply_add(x + x_low, 1.44269504F, to_integer);
  const float n = shifted - to_integer;
  float r = multiply_add(n, -0.693359375F, x);
  r = multiply_add(n, 2.12194440e-4F, r);
  return {bits_of(shifted) - bits_of(to_integer), r + x_low};
}

/// exp(r) - 1 for |r| <= ln 2 / 2: r + r^2 p(r), relative error of p 1.4e-8.
KOKKOS_INLINE_FUNCTION float expm1_polynomial(float r) {
  float p = 0.0013946646F;
  p = multiply_add(p, r, 0.008366698F);
  p = multiply_add(p, r, 0.04166628F);
  p = multiply_add(p, r, 0.16666542F);
  p = multiply_add(p, r, 0.5F);
  return multiply_add(r * r, p, r);
}

/// 2^n for -126 <= n <= 127.
KOKKOS_INLINE_FUNCTION float power_of_two(std::uint32_t n) { return from_bits((n + 127U) << 23U); }

/// exp of a reduced number. The power is applied in two factors: 2^n itself may be no float.
KOKKOS_INLINE_FUNCTION float exp_of(const Reduced& x) {
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(x.n) >> 1);
  return (1.0F + expm1_polynomial(x.r)) * power_of_two(half) * power_of_two(x.n - half);
}

}  // namespace detail

KOKKOS_INLINE_FUNCTION double exp(double x) { return std::exp(x); }
KOKKOS_INLINE_FUNCTION float exp(float x) {
  return detail::exp_of(detail::reduce(detail::clamp_exponent(x)));
}

KOKKOS_INLINE_FUNCTION double tanh(double x) { return std::tanh(x); }
/// e / (e + 2) with e = exp(2 |x|) - 1, and x's sign.
KOKKOS_INLINE_FUNCTION float tanh(float x) {
  const float size = std::fabs(x);
  const auto reduced = detail::reduce(2.0F * (size > 10.0F ? 10.0F : size));
  const float power = detail::power_of_two(reduced.n);
  const float e = detail::multiply_add(power, detail::expm1_polynomial(reduced.r), power - 1.0F);
  return std::copysign(e / (e + 2.0F), x);
}

/// 1 / (1 + exp(-x)) and one minus it: both accurate however small they are.
template <class T>
struct Sigmoid {
  T value, complement;
};
template <class T>
KOKKOS_INLINE_FUNCTION Sigmoid<T> sigmoid_and_complement(T x) {
  const T e = exp(-std::fabs(x)), inverse = T{1} / (T{1} + e), small = e * inverse;
  return {x < T{0} ? small : inverse, x < T{0} ? inverse : small};
}
template <class T>
KOKKOS_INLINE_FUNCTION T sigmoid(T x) {
  const T e = exp(-std::fabs(x));
  return (x < T{0} ? e : T{1}) / (T{1} + e);
}

/// The normal distribution: P(X <= x) = (1 + erf(x / sqrt 2)) / 2, and its density.
template <class T>
struct Normal {
  T cdf, density;
};
KOKKOS_INLINE_FUNCTION Normal<double> normal(double x) {
  return {0.5 * std::erfc(-0.70710678118654752 * x), 0.39894228040143268 * std::exp(-0.5 * x * x)};
}
/// With t = |x|: P(X <= -t) = exp(-t^2 / 2) p(s) / (t + 4), s = (t - 4) / (t + 4), as Shepherd and
/// Laframboise 1981 (Mathematics of Computation 36) expand erfc; relative error of p 8.6e-9.
KOKKOS_INLINE_FUNCTION Normal<float> normal(float x) {
  const float size = std::fabs(x), t = size > 20.0F ? 20.0F : size;
  // t^2 = high^2 + (t - high) (t + high), the first exact: exp would multiply its rounding by t^2.
  const float high = detail::from_bits(detail::bits_of(t) & 0xFFFFF000U);
  const float square = -0.5F * high * high, rest = -0.5F * (t - high) * (t + high);
  const bool vanishes = square < -104.0F;
  const float e =
      detail::exp_of(detail::reduce(vanishes ? -104.0F : square, vanishes ? 0.0F : rest));
  const float inverse = 1.0F / (t + 4.0F), s = (t - 4.0F) * inverse;
  float p = -0.00013197174F;
  p = detail::multiply_add(p, s, 0.00017935435F);
  p = detail::multiply_add(p, s, 0.0015699235F);
  p = detail::multiply_add(p, s, -0.003512554F);
  p = detail::multiply_add(p, s, -0.0075252713F);
  p = detail::multiply_add(p, s, 0.06040383F);
  p = detail::multiply_add(p, s, -0.18652344F);
  p = detail::multiply_add(p, s, 0.3871369F);
  p = detail::multiply_add(p, s, -0.60789657F);
  p = detail::multiply_add(p, s, 0.75528514F);
  const float tail = e * p * inverse;
  return {x < 0.0F ? tail : 1.0F - tail, 0.39894228F * e};
}

}  // namespace lockstep::math
