#pragma once
#include <cstdint>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// The sum of the elements up to and with each one along `dim`; f32 is summed in double.
[[nodiscard]] Variable cumsum(const Operand& x, int dim);

/// Sorted elements along one dimension, and their indices (i64). NaN is larger than everything;
/// among equals the first comes first. On the host.
struct OrderResult {
  Variable values;
  Tensor indices;
};
[[nodiscard]] OrderResult sort(const Operand& x, int dim = -1, bool descending = false);
/// The k largest (or smallest) in order. Throws ShapeError unless 0 <= k <= the extent of `dim`.
[[nodiscard]] OrderResult topk(const Operand& x, std::int64_t k, int dim = -1, bool largest = true);

}  // namespace lockstep
