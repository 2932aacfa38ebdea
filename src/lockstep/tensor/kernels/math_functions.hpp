#pragma once
// exp, tanh and what is made of them, for loops that the compiler turns into vectors: no branch, no
// table, no call, and the same bits in a vector of any width as alone. Polynomials and quotients
// are for float; double is the standard library's. NaN, infinities and -0 come out as IEEE 754
// wants them, and so do subnormal numbers where nothing else is said.
//
// Coefficients are minimax fits of our own (Remez exchange in 40 digits; quotients by iteratively
// reweighted least squares). The errors stated are the largest that
// tests/tensor/math_functions_test.cpp allows; an ulp is a unit in the last place of the result.

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

/// The polynomial with these coefficients, the highest power's first (Horner's rule).
template <class... Lower>
KOKKOS_INLINE_FUNCTION float polynomial(float x, float highest, Lower... lower) {
  float p = highest;
  ((p = multiply_add(p, x, lower)), ...);
  return p;
}

/// x = n ln 2 + r, |r| <= ln 2 / 2, for |x| <= 104 (Cody and Waite 1980: ln 2 in two parts, the
/// products with the first are exact).
struct Reduced {
  float r;
  std::uint32_t biased;  ///< its lowest bits are n + 127: 2^n as a float, once shifted by 23
};
KOKKOS_INLINE_FUNCTION Reduced reduce(float x) {
  constexpr float to_integer = 12582912.0F + 127.0F;  // 1.5 2^23: the sum has no fraction
  const float shifted = multiply_add(x, 1.44269504F, to_integer);
  const float n = shifted - to_integer;
  return {multiply_add(n, 2.12194440e-4F, multiply_add(n, -0.693359375F, x)), bits_of(shifted)};
}

/// exp(r) for |r| <= ln 2 / 2, relative error 5e-9 and its rounding.
KOKKOS_INLINE_FUNCTION float exp_polynomial(float r) {
  return polynomial(r, 0.0013946646F, 0.008366698F, 0.04166628F, 0.16666542F, 0.5F, 1.0F, 1.0F);
}

}  // namespace detail

KOKKOS_INLINE_FUNCTION double exp(double x) { return std::exp(x); }
/// Error below 1.2 ulp.
KOKKOS_INLINE_FUNCTION float exp(float x) {
  float bounded = x < -104.0F ? -104.0F : x;  // below it exp(x) is 0, above 89 infinite
  bounded = bounded > 89.0F ? 89.0F : bounded;
  const auto reduced = detail::reduce(bounded);
  // 2^n may be no float, so it is applied in two factors: n + 127 = half + rest.
  const auto biased = static_cast<std::int32_t>(reduced.biased << 16U) >> 16;
  const auto half = static_cast<std::uint32_t>(biased >> 1);
  const auto rest = static_cast<std::uint32_t>(biased) - half;
  return detail::exp_polynomial(reduced.r) * detail::from_bits((half + 64U) << 23U) *
         detail::from_bits((rest + 63U) << 23U);
}

KOKKOS_INLINE_FUNCTION double exp_or_zero(double x) { return std::exp(x); }
/// exp(x) for x <= 88; 0 where it would be subnormal (x < -87.33). Error below 1.2 ulp. 8
/// operations fewer than exp.
KOKKOS_INLINE_FUNCTION float exp_or_zero(float x) {
  const auto reduced = detail::reduce(x);
  const float y = detail::exp_polynomial(reduced.r) * detail::from_bits(reduced.biased << 23U);
  return x < -87.33F ? 0.0F : y;
}

KOKKOS_INLINE_FUNCTION double tanh(double x) { return std::tanh(x); }
/// e / (e + 2) with e = exp(2 |x|) - 1, and x's sign. Error below 2.6 ulp.
KOKKOS_INLINE_FUNCTION float tanh(float x) {
  const float size = std::fabs(x);
  const auto reduced = detail::reduce(2.0F * (size > 10.0F ? 10.0F : size));
  const float r = reduced.r, power = detail::from_bits(reduced.biased << 23U);
  const float p =
      detail::polynomial(r, 0.0013946646F, 0.008366698F, 0.04166628F, 0.16666542F, 0.5F);
  const float e = detail::multiply_add(power, detail::multiply_add(r * r, p, r), power - 1.0F);
  return std::copysign(e / (e + 2.0F), x);
}

/// s = 1 / (1 + exp(-x)) and 1 - s, both accurate however small they are: error below 3 ulp.
template <class T>
struct Sigmoid {
  T value, complement;
};
template <class T>
KOKKOS_INLINE_FUNCTION Sigmoid<T> sigmoid_and_complement(T x) {
  const T e = exp(-std::fabs(x)), large = T{1} / (T{1} + e), small = e * large;
  return {x < T{0} ? small : large, x < T{0} ? large : small};
}
template <class T>
KOKKOS_INLINE_FUNCTION T sigmoid(T x) {
  const T e = exp(-std::fabs(x));
  return (x < T{0} ? e : T{1}) / (T{1} + e);
}

/// P(X <= x) of the normal distribution, (1 + erf(x / sqrt 2)) / 2.
KOKKOS_INLINE_FUNCTION double normal_cdf(double x) {
  return 0.5 * std::erfc(-0.70710678118654752 * x);
}
/// Absolute error below 2.5e-7; 0 and 1 beyond |x| = 5.4.
KOKKOS_INLINE_FUNCTION float normal_cdf(float x) {
  const float z = x * x;
  const float p = detail::polynomial(z, 2.3386729e-8F, 6.3600276e-6F, 1.6432220e-4F, 4.6508543e-3F,
                                     3.3372274e-2F, 0.39894225F);
  const float q = detail::polynomial(z, 1.2165914e-6F, 7.2400370e-5F, 1.8589844e-3F, 2.8378714e-2F,
                                     0.25031797F, 1.0F);
  const float y = 0.5F + x * p / q;
  const float bounded = x < -5.4F ? 0.0F : y;
  return x > 5.4F ? 1.0F : bounded;
}

/// normal_cdf(x) + x normal_density(x), the derivative of x normal_cdf(x).
KOKKOS_INLINE_FUNCTION double gelu_derivative(double x) {
  return normal_cdf(x) + x * 0.39894228040143268 * std::exp(-0.5 * x * x);
}
/// Absolute error below 2.5e-7; 0 and 1 beyond |x| = 6.
KOKKOS_INLINE_FUNCTION float gelu_derivative(float x) {
  const float z = x * x;
  const float p = detail::polynomial(z, 1.7046415e-8F, 9.2253631e-7F, 3.4091907e-5F, 2.0273364e-4F,
                                     1.3857335e-2F, -2.2371123e-2F, 0.79788453F);
  const float q = detail::polynomial(z, 1.3147715e-9F, 3.3898050e-7F, 1.0307763e-5F, 2.4532476e-4F,
                                     3.9715150e-3F, 4.4133644e-2F, 0.30529492F, 1.0F);
  const float y = 0.5F + x * p / q;
  const float bounded = x < -6.0F ? 0.0F : y;
  return x > 6.0F ? 1.0F : bounded;
}

}  // namespace lockstep::math
