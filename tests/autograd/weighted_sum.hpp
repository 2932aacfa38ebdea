#pragma once
#include <lockstep/autograd/variable.hpp>

namespace lockstep::test {

/// sum(x * weight): a one-element end for a graph, so that backward() starts with `weight` as the
/// gradient of x. Shapes may differ in ones; numel and dtype may not.
[[nodiscard]] Variable weighted_sum(const Variable& x, const Tensor& weight);

}  // namespace lockstep::test
