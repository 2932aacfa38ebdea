#pragma once
#include <lockstep/tensor/kernels/sequence/attention.hpp>

// Attention in one call of a device's library (math::Attention), which keeps no scores in memory.

namespace lockstep::detail {

/// Return false where the library has no such attention, or these are not its operands: it takes q,
/// k, v and out of one 16-bit type without plan.mask, causal only from as many queries as keys; and
/// backward all three gradients, of that type too, none of which adds. Then nothing of worth is
/// written. Arguments and results are those of attention_forward and attention_backward.
[[nodiscard]] bool attention_forward_fused(const AttentionPlan& plan, const Heads& q,
                                           const Heads& k, const Heads& v, const Heads& out,
                                           const Tensor& log_sum);
[[nodiscard]] bool attention_backward_fused(const AttentionPlan& plan, const Heads& grad_out,
                                            const Heads& q, const Heads& k, const Heads& v,
                                            const Heads& out, const Tensor& log_sum,
                                            const AttentionGrad& grad_q,
                                            const AttentionGrad& grad_k,
                                            const AttentionGrad& grad_v);

/// How many samples one call takes in backward: libraries that give the same bits every time keep a
/// number of 16 bits for each of their scores [heads, queries, keys], so as many as have 2^30
/// scores, and one at least.
[[nodiscard]] std::int64_t samples_a_backward(const AttentionPlan& plan);

}  // namespace lockstep::detail
