#pragma once
#include <cstdint>
#include <optional>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/parallel/context/sequence_slice.hpp>

// Attention over sequences that several ranks hold in slices (context parallelism). Keys and values
// travel around the ring of ranks while each rank computes with its current slice; partial results
// are merged by their log-sum-exp, so the result is that of attention over the whole sequence (Liu
// et al. 2023, arXiv:2310.01889). In backward the gradients of keys and values travel with them. A
// rank holds two slices of keys and values, in backward also three of their gradients: never the
// whole sequence's, nor its scores. For second derivatives (grad() with create_graph) the first
// backward pass gathers all keys and values, and holds the scores of this rank's queries.
//
// Keys and values of f32 travel in 16 bits if products round them to that type (Autocast), or if
// they are copies of variables of that type: the results are the same. Their gradients travel in
// f32.
//
// Collective, forward and backward. Lengths may differ from rank to rank and be 0; batch, heads,
// width, dtypes and options are the same on every rank, else every rank throws the same ShapeError.
// k and v require a gradient on all ranks or on none, and so do the operands together.

namespace lockstep {

/// Options of ring_attention and ring_self_attention, the same on every rank.
struct RingAttentionOptions {
  bool causal = false;               ///< a position sees none after it in the whole sequence
  std::optional<double> scale = {};  ///< default 1 / sqrt(D)
  /// Where the slices lie in the sequence. Without `causal` the order has no effect.
  SequenceOrder order = SequenceOrder::contiguous;
  /// bool [B,S] of this rank's keys, true: no query sees this key. On all ranks, or undefined on
  /// all.
  Tensor key_padding_mask = {};
};

/// softmax(scale q k^T + mask) v of this rank's slice q[B,H,T,D] to all ranks' k and v[B,G,S,D]
/// -> [B,H,T,D]; S = T if causal. G divides H: query heads h H/G to (h + 1) H/G - 1 share key head
/// h (grouped-query attention, Ainslie et al. 2023, arXiv:2305.13245). A position that sees nothing
/// gives 0.
[[nodiscard]] Variable ring_attention(const Operand& q, const Operand& k, const Operand& v,
                                      const GroupPtr& group,
                                      const RingAttentionOptions& options = {});

/// The same where the heads of q, k and v lie side by side in the last dimension of
/// qkv[B,T,(heads + 2 key_heads) D] -> [B,T,heads D]. `key_heads` 0: as many as `heads`.
[[nodiscard]] Variable ring_self_attention(const Operand& qkv, std::int64_t heads,
                                           const GroupPtr& group,
                                           const RingAttentionOptions& options = {},
                                           std::int64_t key_heads = 0);

}  // namespace lockstep
