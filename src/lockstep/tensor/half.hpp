#pragma once
#include <bit>
#include <cstdint>

#include <lockstep/tensor/dtype.hpp>

namespace lockstep {

/// The 16-bit dtypes' elements: stored, converted, never calculated with. Conversions from float
/// round to nearest, ties to even, as IEEE 754 does; NaN stays NaN. No branches: loops over them
/// become vectors.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  constexpr explicit BFloat16(float x) {
    const auto wide = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (wide + 0x7fffU + (wide >> 16U & 1U)) >> 16U;
    const bool nan = (wide & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(nan ? (wide >> 16U | 0x40U) : rounded);
  }
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): widens without loss
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

/// IEEE 754 binary16: conversions from and to float, rounded to the nearest even.
struct Float16 {
  std::uint16_t bits = 0;

  Float16() = default;
  constexpr explicit Float16(float x) {
    const auto wide = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = wide >> 16U & 0x8000U, size = wide & 0x7fffffffU;
    // Normal: the exponent's bias goes from 127 to 15; carries of the rounding run into it.
    const std::uint32_t normal = (size + 0xc8000fffU + (size >> 13U & 1U)) >> 13U;
    // Subnormal: adding 0.5 moves the bits that remain to the end of the fraction and rounds them.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3f000000U;
    const std::uint32_t special = size > 0x7f800000U ? 0x7e00U : 0x7c00U;  // NaN or infinity
    const std::uint32_t finite = size < 0x38800000U ? subnormal : normal;
    bits = static_cast<std::uint16_t>(sign | (size >= 0x47800000U ? special : finite));
  }
  constexpr operator float() const {  // NOLINT(google-explicit-constructor): widens without loss
    const std::uint32_t sign = (bits & 0x8000U) << 16U, shifted = (bits & 0x7fffU) << 13U;
    const std::uint32_t exponent = shifted & 0x0f800000U;
    const std::uint32_t normal = shifted + 0x38000000U;
    const auto subnormal = std::bit_cast<std::uint32_t>(
        std::bit_cast<float>(shifted + 0x38800000U) - 6.103515625e-05F);  // 2^-14
    const std::uint32_t finite = exponent == 0 ? subnormal : normal;
    return std::bit_cast<float>(sign | (exponent == 0x0f800000U ? shifted + 0x70000000U : finite));
  }
};

namespace detail {
template <>
struct DTypeOf<BFloat16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<Float16> : std::integral_constant<DType, DType::f16> {};
}  // namespace detail

}  // namespace lockstep
