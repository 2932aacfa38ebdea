#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/dims.hpp>

// Every operation here except reshape and flatten copies: tensors are always contiguous.

namespace lockstep {

/// The same elements with another shape; one extent may be -1 and is inferred.
[[nodiscard]] Variable reshape(const Variable& x, const OpenShape& shape);

/// Dimensions start_dim to end_dim as one (torch.flatten); negative ones count from the end. A
/// scalar becomes [1]. Throws ShapeError for dimensions that x does not have, or in another order.
/// Samples stay apart by flatten(x, 1).
[[nodiscard]] Variable flatten(const Variable& x, int start_dim = 0, int end_dim = -1);

/// Dimension d of the result is dimension dims[d] of x.
[[nodiscard]] Variable permute(const Variable& x, const Dims& dims);

/// Two dimensions exchanged.
[[nodiscard]] Variable transpose(const Variable& x, int dim0, int dim1);

/// Side by side along `dim`; all other extents are equal.
[[nodiscard]] Variable concat(std::span<const Variable> parts, int dim = 0);
[[nodiscard]] inline Variable concat(std::initializer_list<Variable> parts, int dim = 0) {
  return concat(std::span(parts.begin(), parts.size()), dim);
}

/// Elements [start, start + length) of `dim`; a negative start counts from the end.
[[nodiscard]] Variable narrow(const Variable& x, int dim, std::int64_t start, std::int64_t length);

/// Consecutive parts of these sizes, which must add up to the extent of `dim`.
[[nodiscard]] std::vector<Variable> split(const Variable& x, std::span<const std::int64_t> sizes,
                                          int dim = 0);

/// y[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`; index is i64, its other extents at
/// most x's. The gradient of an element chosen twice is the sum. On the host throws InputError for
/// an index outside x.
[[nodiscard]] Variable gather(const Variable& x, int dim, const Tensor& index);

}  // namespace lockstep
