#pragma once
#include <cstdint>

namespace lockstep {

class Tensor;

/// The rounding of operands of f32 matrix products and convolutions, per element, to nearest, ties
/// to even: none, or to a 16-bit type, whose products some processors compute two to sixteen times
/// faster. Sums and results are f32 in any case.
enum class Precision : std::uint8_t { f32, bf16, fp16 };

/// This thread's.
[[nodiscard]] Precision product_precision() noexcept;

/// Sets this thread's precision while it lives.
class PrecisionGuard {
 public:
  explicit PrecisionGuard(Precision precision) noexcept;
  ~PrecisionGuard();
  PrecisionGuard(const PrecisionGuard&) = delete;
  PrecisionGuard& operator=(const PrecisionGuard&) = delete;

 private:
  Precision before_;
};

/// x as an operand of products in this thread's precision: rounded, if it is f32 and they are of 16
/// bits, else x itself.
[[nodiscard]] Tensor product_operand(const Tensor& x);

/// Whether this processor multiplies such numbers itself, by AVX512-BF16 or AMX. Other processors
/// multiply the rounded operands in f32: the same numbers up to the order of sums, and no faster.
[[nodiscard]] bool has_units_for(Precision precision);

}  // namespace lockstep
