#pragma once
#include <cstdint>

#include <lockstep/tensor/dtype.hpp>

namespace lockstep {

/// The reduction of the ranks' elements. f16 and bf16 accumulate in f32 and are rounded once; over
/// several nodes, each node's partial result is rounded too (docs/reference/numerics.md). Integer
/// sums and products wrap around. For bool, sum and max mean "any", product and min "all". min and
/// max of floats are NaN if a rank contributes NaN, and -0 is below +0; on devices NCCL decides
/// both.
enum class ReduceOp : std::uint8_t { sum, avg, product, min, max, band, bor, bxor };

/// "sum", "avg", ...
[[nodiscard]] const char* name_of(ReduceOp op) noexcept;

/// avg: floating dtypes only; band, bor, bxor: i32, i64, u8 and bool only; the others: every dtype.
[[nodiscard]] bool reducible(ReduceOp op, DType dtype) noexcept;

}  // namespace lockstep
