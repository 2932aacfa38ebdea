#pragma once
#include <array>
#include <cstdint>

#include <lockstep/parallel/context/ring_attention.hpp>
#include <lockstep/tensor/kernels/sequence/attention_blocks.hpp>

// The loops of ring_attention, on tensors. Not for users.

namespace lockstep::detail {

/// A part of a rank's slice that is contiguous in the sequence.
struct RingChunk {
  std::int64_t place;  ///< among all ranks' chunks, in the order of the sequence
  std::int64_t begin, count;
};

/// Sizes and options of one ring attention, as every rank knows them.
struct RingPlan {
  /// Whether q, k and v lie side by side in one tensor [B,T,(H + 2 G) D], or are [B,H,T,D].
  bool packed;
  std::int64_t batch, heads, key_heads, queries, width;  ///< B, H, G, T, D
  double scale;
  bool causal;
  SequenceOrder order;
  DType key_dtype;  ///< in which keys and values travel
  bool pads;        ///< a padding mask travels with them
  GroupPtr group;
  Tensor keys;  ///< S of each rank, i64 on the host; a vector would allocate in each step

  [[nodiscard]] std::int64_t group_heads() const { return heads / key_heads; }
  [[nodiscard]] std::int64_t keys_of(int rank) const {
    return static_cast<const std::int64_t*>(keys.data())[rank];
  }
  /// The chunks of rank `rank`'s slice of `length` positions; one may be empty.
  [[nodiscard]] std::array<RingChunk, 2> chunks(int rank, std::int64_t length) const;
  /// Elements of rank `rank`'s keys and values, and of their gradients.
  [[nodiscard]] std::int64_t elements(int rank) const {
    return 2 * batch * key_heads * keys_of(rank) * width;
  }
  /// Of the travelling bytes: keys, values and mask.
  [[nodiscard]] std::int64_t elements_sent(int rank) const {
    return elements(rank) + (pads ? batch * keys_of(rank) : 0);
  }
};

/// The query heads in q or its gradient, or in the output or its gradient.
[[nodiscard]] Heads query_heads(const RingPlan& plan, const Tensor& q);
[[nodiscard]] Heads output_heads(const RingPlan& plan, const Tensor& out);

/// The travelling bytes, flat: this rank's keys and values (f32 or f64, flat) in plan.key_dtype;
/// behind them, if plan.pads, `key_padding_mask`, bool [B,S], as 0 and 1. Local.
[[nodiscard]] Tensor as_they_travel(const RingPlan& plan, const Tensor& keys_values,
                                    const Tensor& key_padding_mask);

/// out = attention of the queries to the keys and values of all ranks, of which `keys_values`, by
/// as_they_travel, are this rank's, given up; log_sum, flat [B H T], is for ring_backward.
/// Collective.
void ring_forward(const RingPlan& plan, const Heads& q, Tensor keys_values, const Heads& out,
                  const Tensor& log_sum);

/// The gradient of q; and the result is that of keys and values, flat, of log_sum's dtype,
/// undefined unless `wants_keys`. If `grad_q.heads.tensor` is undefined it is not computed.
/// Collective.
[[nodiscard]] Tensor ring_backward(const RingPlan& plan, const Heads& grad_out, const Heads& q,
                                   Tensor keys_values, const Heads& out, const Tensor& log_sum,
                                   const AttentionGrad& grad_q, bool wants_keys);

}  // namespace lockstep::detail
