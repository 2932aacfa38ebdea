#pragma once
#include <functional>
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep::test {

/// Uniform numbers in [-1, 1), f64, the same for a given shape and seed everywhere.
[[nodiscard]] Tensor random_tensor(const Shape& shape, std::uint64_t seed);

using Function = std::function<Variable(const std::vector<Variable>&)>;

/// Which derivatives an operation has.
enum class Derivatives { first, of_any_order };

/// Expects the backward of f, for a random upstream gradient, to agree with central differences in
/// every element of every input (f64).
///
/// Step and bound: with terms of size about 1, the truncation error of (f(x+h) - f(x-h)) / 2h is
/// h^2 f''' / 6 and its rounding error u S / h with S the size of the summed output and u = 1e-16.
/// At h = 1e-5 they are 1e-11 and 1e-11 S; the bound of 1e-7 (1 + |difference|) leaves room for
/// third derivatives and sums of several thousand and is far below any error in a formula.
///
/// Likewise the second derivatives, of any order, as check_second_gradients does it, with
/// differences of the gradients that backward() gives; or that there are none.
void expect_gradients(const Function& f, const std::vector<Tensor>& inputs,
                      Derivatives derivatives = Derivatives::of_any_order);

}  // namespace lockstep::test
