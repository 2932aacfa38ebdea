#pragma once
#include <cstdint>
#include <span>

#include <lockstep/comm/reduce_op.hpp>

namespace lockstep {

/// Every target's elements = the reduction of the sources', element by element in the order of the
/// sources: the same bits for every caller and every division of the range. f16 and bf16 accumulate
/// in f32 and are rounded once. All addresses are the host's and hold `count` elements of `dtype`;
/// a target may be one of the sources. Throws ShapeError unless reducible(op, dtype).
void reduce_ranks(ReduceOp op, DType dtype, std::span<const void* const> sources,
                  std::int64_t count, std::span<void* const> targets);

/// The same for floating-point numbers, times `factor` before rounding, in place of avg's division;
/// other dtypes have factor 1.
void reduce_ranks(ReduceOp op, DType dtype, std::span<const void* const> sources,
                  std::int64_t count, std::span<void* const> targets, double factor);

}  // namespace lockstep
