#pragma once
#include <cstdint>
#include <optional>

#include <lockstep/autograd/operand.hpp>

namespace lockstep {

/// Options of scaled_dot_product_attention and its relatives: scale and masks.
struct AttentionOptions {
  bool causal = false;          ///< position i sees positions j <= i only
  std::optional<double> scale;  ///< default 1 / sqrt(D)
  Tensor mask;                  ///< bool [T,S], true: may be seen; or undefined
  Tensor key_padding_mask;      ///< bool [B,S], true: nobody sees this key; or undefined
};

/// softmax(scale q k^T + mask) v for q[B,H,T,D], k and v[B,H,S,D] (Vaswani et al. 2017,
/// arXiv:1706.03762) -> [B,H,T,D]. A position that sees nothing gives 0. k and v may be [B,G,S,D]
/// with G a divisor of H: H / G query heads that follow one another then share one of theirs
/// (grouped-query attention, Ainslie et al. 2023, arXiv:2305.13245).
[[nodiscard]] Variable scaled_dot_product_attention(const Variable& q, const Variable& k,
                                                    const Variable& v,
                                                    const AttentionOptions& options = {});

/// The same for q[B,T,E], k and v[B,S,E], each made of `heads` heads of E / heads side by side
/// -> [B,T,E]. Copies nothing.
[[nodiscard]] Variable multi_head_attention(const Variable& q, const Variable& k, const Variable& v,
                                            std::int64_t heads,
                                            const AttentionOptions& options = {});

/// Output and weights of multi_head_attention_with_weights.
struct AttentionResult {
  Variable output;   ///< [B,T,E]
  Variable weights;  ///< weights of the keys for each query: [B,T,S], or per head, [B,H,T,S]
};

/// multi_head_attention with its weights, softmax(scale q k^T + mask): their mean over the heads if
/// `average_attn_weights`, else each head's. Both are differentiable. Holds the weights of all
/// heads in memory, which multi_head_attention never does; a query that sees no key has zeros.
[[nodiscard]] AttentionResult multi_head_attention_with_weights(
    const Operand& q, const Operand& k, const Operand& v, std::int64_t heads,
    const AttentionOptions& options = {}, bool average_attn_weights = true);

/// multi_head_attention where q, k and v are the thirds of the last dimension of qkv[B,T,3E].
[[nodiscard]] Variable self_attention(const Variable& qkv, std::int64_t heads,
                                      const AttentionOptions& options = {});

}  // namespace lockstep
