#pragma once
#include <cstdint>

#include <lockstep/tensor/kernels/sequence/attention.hpp>

// Attention as products of whole stacks of heads (math/product.hpp) and kernels over rows, for
// devices on which these run: the scores of some samples at a time are in memory. Arguments,
// results and rounding are those of attention_forward and attention_backward, which call these for
// a GPU.

namespace lockstep::detail {

void attention_forward_by_products(const AttentionPlan& plan, const Heads& q, const Heads& k,
                                   const Heads& v, const Heads& out, const Tensor& log_sum);
void attention_backward_by_products(const AttentionPlan& plan, const Heads& grad_out,
                                    const Heads& q, const Heads& k, const Heads& v,
                                    const Tensor& log_sum, const AttentionGrad& grad_q,
                                    const AttentionGrad& grad_k, const AttentionGrad& grad_v,
                                    const Tensor& row_dots);

/// How many samples' scores [heads, queries, keys] are in memory at a time: as many as fit into
/// 2^26 elements, and one at least.
[[nodiscard]] std::int64_t samples_at_a_time(const AttentionPlan& plan);

}  // namespace lockstep::detail
