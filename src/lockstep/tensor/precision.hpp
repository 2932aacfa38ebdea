#pragma once
#include <cstdint>

namespace lockstep {

class Tensor;

/// What the operands of matrix products and convolutions of f32 tensors are rounded to, element by
/// element, to nearest, ties to even: not at all, or to a 16-bit type, of which the processor may
/// compute two to sixteen times as many in the same time. Sums and results are f32 in any case.
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

/// Whether this processor multiplies such numbers itself, by AVX512-BF16 or AMX. Elsewhere rounded
/// operands are multiplied in f32: the same numbers up to the order of sums, and no faster.
[[nodiscard]] bool has_units_for(Precision precision);

}  // namespace lockstep
