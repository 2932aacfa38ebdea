#pragma once
#include <initializer_list>
#include <span>
#include <string>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// Sums of products by Einstein's convention: one letter per dimension of each operand; the letters
/// after "->" remain: einsum("bhqd,bhkd->bhqk", {q, k}). Without an arrow the letters that occur in
/// one operand only remain, in alphabetical order. Products are made from the left to the right,
/// each a batched matmul. As torch.einsum, except that "...", a letter twice in one operand, and
/// broadcasting of extents of 1 throw ShapeError, as does a letter with several extents.
[[nodiscard]] Variable einsum(const std::string& equation, std::span<const Variable> operands);
[[nodiscard]] inline Variable einsum(const std::string& equation,
                                     std::initializer_list<Variable> operands) {
  return einsum(equation, std::span(operands.begin(), operands.size()));
}

}  // namespace lockstep
