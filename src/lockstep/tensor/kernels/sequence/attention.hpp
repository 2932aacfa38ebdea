#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// One operand of attention, [B,H,T,D] as the formula sees it: element (b, h, t, d) is number
/// offset + b batch + h head + t row + d of the tensor. So heads may lie side by side in a
/// projection's output [B,T,3,H,D] and need not be split or merged.
struct Heads {
  Tensor tensor;
  std::int64_t offset = 0, batch = 0, head = 0, row = 0;
};

/// A contiguous tensor [B,H,T,D].
[[nodiscard]] Heads heads_of(const Tensor& t);

/// Operand `part` of `parts` side by side in x[B,T,parts H D].
[[nodiscard]] Heads heads_in(const Tensor& x, std::int64_t heads, std::int64_t part,
                             std::int64_t parts);

/// Sizes, scale and masks of one attention, forward and backward.
struct AttentionPlan {
  std::int64_t batch, heads, queries, keys, width;  ///< B, H, T, S, D
  double scale;
  bool causal;              ///< query i sees keys j <= i only
  Tensor mask;              ///< bool [T,S], true: may be seen; or undefined
  Tensor key_padding_mask;  ///< bool [B,S], true: no query sees this key; or undefined
  /// Query heads for each head of keys and values, which are [B, H / group_heads, S, D]: a divisor
  /// of H. Other than 1 it takes q, the output and their gradients as heads_of gives them.
  std::int64_t group_heads = 1;
};

/// out = softmax(scale q k^T + mask) v; 0 for a query without any key. Of the scores it keeps only
/// log_sum[B,H,T], the logarithm of each row's sum of exponentials (+inf without any key). Of one
/// floating type, with log_sum in f32 for 16 bits, which are operands of the products as they are
/// and results rounded once; where q is f32, k and v may be of 16 bits. A GPU computes it in one
/// call of its library where that can (attention_fused.hpp), else in parts with scores in memory
/// (attention_products.hpp). Returns true for the former: then backward may be one call, too, given
/// `out`.
bool attention_forward(const AttentionPlan& plan, const Heads& q, const Heads& k, const Heads& v,
                       const Heads& out, const Tensor& log_sum);

/// The output of attention_backward for one gradient; if `heads.tensor` is undefined it is not
/// computed.
struct AttentionGrad {
  Heads heads;
  bool accumulate = false;
};

/// The gradients of q, k and v, of the dtype of q, as grad_out is. The probabilities are recomputed
/// from q, k and log_sum: memory stays linear in the length, at a fifth more arithmetic. Of a block
/// of the keys (attention_blocks.hpp): log_sum is that of all keys, and row_dots[B,H,T] is given.
/// Returns true if a GPU's library computed it in one call, which needs `out`, that of
/// attention_forward.
bool attention_backward(const AttentionPlan& plan, const Heads& grad_out, const Heads& q,
                        const Heads& k, const Heads& v, const Tensor& log_sum,
                        const AttentionGrad& grad_q, const AttentionGrad& grad_k,
                        const AttentionGrad& grad_v, const Tensor& row_dots = {},
                        const Heads& out = {});

}  // namespace lockstep
