#pragma once
#include <initializer_list>
#include <span>
#include <string>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// Sums of products by Einstein's convention: a letter for each dimension of each operand, of
/// which those after "->" stay: einsum("bhqd,bhkd->bhqk", {q, k}). Without an arrow those stay that
/// one operand has alone, by the alphabet. Products are made from the left to the right, each a
/// batched matmul. As torch.einsum, but for "...", a letter twice in one operand, and repeating of
/// extents of 1: these throw ShapeError, as do letters of several extents.
[[nodiscard]] Variable einsum(const std::string& equation, std::span<const Variable> operands);
[[nodiscard]] inline Variable einsum(const std::string& equation,
                                     std::initializer_list<Variable> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}

}  // namespace lockstep
