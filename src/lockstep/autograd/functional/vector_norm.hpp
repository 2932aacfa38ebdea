#pragma once
#include <concepts>
#include <initializer_list>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/dims.hpp>

// Over the dimensions `dims`, as in sum (functional/reduction.hpp).

namespace lockstep {

/// The product; each factor's gradient is the product of the others.
[[nodiscard]] Variable prod(const Operand& x, const Dims& dims = {}, bool keepdim = false);

/// The p-norm (sum |x|^p)^(1/p): the largest |x| for p = infinity, the smallest for -infinity, the
/// number of elements that are not 0 for p = 0. Intermediate values do not overflow; the gradient
/// is 0 where the norm is 0. Throws ShapeError for an empty dimension if p is negative or infinite.
[[nodiscard]] Variable norm(const Operand& x, double p = 2.0, const Dims& dims = {},
                            bool keepdim = false);
/// The 2-norm over these dimensions: norm(x, {1}) is torch.norm(x, dim=1).
[[nodiscard]] inline Variable norm(const Operand& x, std::initializer_list<int> dims,
                                   bool keepdim = false) {
  return norm(x, 2.0, Dims(dims), keepdim);
}
/// The variance: squared differences to the mean, summed and divided by the number of elements less
/// `correction`, which is 1 for the unbiased estimate. Of as many elements as the correction: NaN.
[[nodiscard]] Variable var(const Operand& x, const Dims& dims = {}, double correction = 1.0,
                           bool keepdim = false);
/// The third argument is no keepdim.
template <std::same_as<bool> Keepdim>
Variable var(const Operand& x, const Dims& dims, Keepdim keepdim) = delete;
/// The standard deviation, whose gradient is 0 where it is 0. Write lockstep::std where both
/// namespaces are in use.
[[nodiscard]] Variable std(const Operand& x, const Dims& dims = {}, double correction = 1.0,
                           bool keepdim = false);
template <std::same_as<bool> Keepdim>
Variable std(const Operand& x, const Dims& dims, Keepdim keepdim) = delete;

}  // namespace lockstep
