#pragma once
#include <lockstep/tensor/kernels/sequence/attention.hpp>

// Attention to keys that come a block at a time, as they do around a ring of ranks:
// attention_forward of each block, and merge_attention of the results; in backward
// attention_backward of each block, with the log-sums of all keys and attention_row_dots. Liu et
// al. 2023 (arXiv:2310.01889).

namespace lockstep {

/// out[B,H,T,D] and log_sum[B,H,T], attention to the keys so far, become attention to those and a
/// further block's, whose output is `block` (contiguous [B,H,T,D]):
///   L = log(exp(log_sum) + exp(block_log_sum)),  w = exp(block_log_sum - L)
///   out = (1 - w) out + w block,  log_sum = L
/// +inf is the log-sum of a row without keys, as attention_forward writes it. block_log_sum[B,H,T]
/// is overwritten. f32 or f64.
void merge_attention(const Tensor& block, const Tensor& block_log_sum, const Heads& out,
                     const Tensor& log_sum);

/// dots[B,H,T] = rowsum(grad_out * out) over D, as attention_backward takes it (Dao et al. 2022,
/// arXiv:2205.14135, appendix B.2).
void attention_row_dots(const Heads& grad_out, const Heads& out, std::int64_t width,
                        const Tensor& dots);

}  // namespace lockstep
