#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/dims.hpp>

namespace lockstep {

/// Over the dimensions `dims` (negative ones count from the end; none: all of them). A reduced
/// dimension disappears, or stays with extent 1 if `keepdim`.
[[nodiscard]] Variable sum(const Variable& x, const Dims& dims = {}, bool keepdim = false);
[[nodiscard]] Variable mean(const Variable& x, const Dims& dims = {}, bool keepdim = false);

/// The largest elements; equal ones share the gradient evenly. Throws ShapeError for an empty
/// dimension.
[[nodiscard]] Variable amax(const Operand& x, const Dims& dims = {}, bool keepdim = false);

/// The largest elements along one dimension and their indices (i64); among equals the first, which
/// takes the whole gradient. Throws ShapeError for an empty dimension.
struct MaxResult {
  Variable values;
  Tensor indices;
};
[[nodiscard]] MaxResult max(const Operand& x, int dim, bool keepdim = false);
/// The index of the largest or smallest element along a dimension, or in all of x in row-major
/// order (i64): the first among equals; NaN counts as both largest and smallest. Throws ShapeError
/// for an empty dimension.
[[nodiscard]] Tensor argmax(const Operand& x, int dim, bool keepdim = false);
[[nodiscard]] Tensor argmax(const Operand& x);
[[nodiscard]] Tensor argmin(const Operand& x, int dim, bool keepdim = false);
[[nodiscard]] Tensor argmin(const Operand& x);

/// log(sum(exp(x))) along `dim`; the largest element is subtracted first.
[[nodiscard]] Variable logsumexp(const Operand& x, int dim, bool keepdim = false);

}  // namespace lockstep
