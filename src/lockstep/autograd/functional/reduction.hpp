#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/dims.hpp>

namespace lockstep {

/// Over the dimensions `dims` (negative ones count from the end; none: all of them). A reduced
/// dimension disappears, or stays with extent 1 if `keepdim`.
[[nodiscard]] Variable sum(const Operand& x, const Dims& dims = {}, bool keepdim = false);
[[nodiscard]] Variable mean(const Operand& x, const Dims& dims = {}, bool keepdim = false);
/// The product; each factor's gradient is the product of the others.
[[nodiscard]] Variable prod(const Operand& x, const Dims& dims = {}, bool keepdim = false);

/// The p-norm (sum |x|^p)^(1/p): the largest |x| for p = infinity, the smallest for -infinity, the
/// number of elements that are not 0 for p = 0. Nothing overflows on the way; its gradient is 0
/// where the norm is 0. Throws ShapeError for an empty dimension if p is negative or infinite.
[[nodiscard]] Variable norm(const Operand& x, double p = 2.0, const Dims& dims = {},
                            bool keepdim = false);
/// The variance: squared differences to the mean, summed and divided by the number of elements less
/// `correction`, which is 1 for the unbiased estimate. Of as many elements as the correction: NaN.
[[nodiscard]] Variable var(const Operand& x, const Dims& dims = {}, double correction = 1.0,
                           bool keepdim = false);
/// Its root, whose gradient is 0 where it is 0. Written lockstep::std where both namespaces are in
/// use.
[[nodiscard]] Variable std(const Operand& x, const Dims& dims = {}, double correction = 1.0,
                           bool keepdim = false);

/// x summed over the dimensions in which `shape` is broadcast to x's: the opposite of expand.
/// Throws ShapeError unless it is.
[[nodiscard]] Variable sum_to_size(const Operand& x, const Shape& shape);
/// The largest elements; equal ones share the gradient evenly. Throws ShapeError for an empty
/// dimension.
[[nodiscard]] Variable amax(const Operand& x, const Dims& dims = {}, bool keepdim = false);

/// The largest elements along one dimension and where they are (i64); among equals the first, which
/// takes the whole gradient. Throws ShapeError for an empty dimension.
struct MaxResult {
  Variable values;
  Tensor indices;
};
[[nodiscard]] MaxResult max(const Operand& x, int dim, bool keepdim = false);
/// Where the largest or smallest element along a dimension is, or in all of x, row-major (i64): the
/// first among equals; NaN is larger and smaller than everything. Throws ShapeError for an empty
/// dimension.
[[nodiscard]] Tensor argmax(const Operand& x, int dim, bool keepdim = false);
[[nodiscard]] Tensor argmax(const Operand& x);
[[nodiscard]] Tensor argmin(const Operand& x, int dim, bool keepdim = false);
[[nodiscard]] Tensor argmin(const Operand& x);

/// The sum of the elements up to and with each one along `dim`; f32 is summed in double.
[[nodiscard]] Variable cumsum(const Operand& x, int dim);

/// Elements in order along one dimension, and where they were (i64). NaN is larger than everything;
/// among equals the first comes first. On the host.
struct OrderResult {
  Variable values;
  Tensor indices;
};
[[nodiscard]] OrderResult sort(const Operand& x, int dim = -1, bool descending = false);
/// The k largest (or smallest) in order. Throws ShapeError unless 0 <= k <= the extent of `dim`.
[[nodiscard]] OrderResult topk(const Operand& x, std::int64_t k, int dim = -1, bool largest = true);

/// log(sum(exp(x))) along `dim`; the largest element is subtracted first.
[[nodiscard]] Variable logsumexp(const Operand& x, int dim, bool keepdim = false);

}  // namespace lockstep
