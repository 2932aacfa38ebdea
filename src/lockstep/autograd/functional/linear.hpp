#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

namespace lockstep {

/// x[..., in] weight[out, in]^T + bias[out] (bias may be undefined) -> [..., out].
[[nodiscard]] Variable linear(const Operand& x, const Operand& weight, const Operand& bias);
/// The same for backward alone: all values are 0, and nothing is multiplied. For a second forward
/// whose last values nobody asks for (nn::Recomputed).
[[nodiscard]] Variable linear_without_values(const Operand& x, const Operand& weight,
                                             const Operand& bias);

/// Matrix product of the last two dimensions; leading ones are broadcast. An operand of one
/// dimension is a row (a) or a column (b), and that dimension disappears from the result.
[[nodiscard]] Variable matmul(const Operand& a, const Operand& b);

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

/// a[B,n,k] b[B,k,m] -> [B,n,m].
[[nodiscard]] Variable bmm(const Operand& a, const Operand& b);

/// Rows of weight[V,D] by index (i64, any shape) -> [..., D]. The gradient of a row used twice is
/// the sum; row `padding_idx` (-1: none) gets none. On the host throws InputError for an index
/// outside [0, V).
[[nodiscard]] Variable embedding(const Tensor& index, const Operand& weight,
                                 std::int64_t padding_idx = -1);

/// Bags of rows of weight[V,D], each reduced to one -> [bags, D]: bag b holds index[offsets[b]] up
/// to the next bag's first (torch.nn.functional.embedding_bag). `index` and `offsets` are i64 of
/// one dimension, or `index` is [bags, n] and `offsets` undefined. `per_sample_weights`, of the
/// index's shape, may be undefined and goes with sums only. An empty bag gives zeros; entries that
/// are `padding_idx` (-1: none) are passed over and not counted. Throws InputError for an index
/// outside [0, V) and for offsets that do not begin with 0, fall, or go beyond the index.
[[nodiscard]] Variable embedding_bag(const Tensor& index, const Operand& weight,
                                     const Tensor& offsets = {}, BagMode mode = BagMode::mean,
                                     const Operand& per_sample_weights = {},
                                     std::int64_t padding_idx = -1);

}  // namespace lockstep
