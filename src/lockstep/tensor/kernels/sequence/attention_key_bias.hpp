#pragma once
#include <lockstep/tensor/kernels/sequence/attention.hpp>

// A key padding mask for a device's library, which adds numbers to scores and hides no key.

namespace lockstep::detail {

/// What is added to the scores of each sample's keys, f32 [B,R]: 0, or for a hidden key -1e30, far
/// below any score and finite. R is S rounded up to 4, so that rows begin at 16 bytes.
/// `key_padding_mask`: bool [B,S], true: no query sees this key.
[[nodiscard]] Tensor key_bias(const Tensor& key_padding_mask);

/// Gives the queries that see no key what attention_forward gives them, 0 and a log-sum of +inf: a
/// library has given them a mean of hidden values. plan.key_padding_mask is defined, plan.mask is
/// not; out and log_sum[B,H,T], f32, are those of attention_forward for 16 bits.
void clear_blind_queries(const AttentionPlan& plan, const Heads& out, const Tensor& log_sum);

}  // namespace lockstep::detail
