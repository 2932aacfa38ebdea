#pragma once
#include <cstdint>

#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/variable.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/tensor/kernels/loss/vocabulary_slab.hpp>

// Embedding and cross entropy of a vocabulary that the ranks of a group share out: rank r holds the
// rows of ClassSlab `slab` of the embedding, or these columns of the logits (Shoeybi et al. 2019,
// arXiv:1909.08053, section 3). Tokens and targets are replicated, and so are the results.
// Collective, forward and backward, as regions.hpp.

namespace lockstep {

/// Rows by index (i64, any shape, of the whole vocabulary) of the table whose rows `weight`
/// [slab.count, D] are this rank's -> [..., D], replicated. One all_reduce. `padding_idx`, a row of
/// the whole table, gets no gradient; -1: none. On the host throws InputError for an index outside
/// the vocabulary.
[[nodiscard]] Variable vocabulary_parallel_embedding(const Tensor& index, const Variable& weight,
                                                     const ClassSlab& slab,
                                                     std::int64_t padding_idx,
                                                     const GroupPtr& group);

/// cross_entropy under the logits whose columns `logits` [..., slab.count] are this rank's, for
/// target i64[...], replicated. No rank holds all logits: the ranks exchange four numbers a row, by
/// one all_reduce of maxima and one of sums. All LossOptions; class_weight is that of the whole
/// vocabulary. First derivatives only. Throws as cross_entropy.
[[nodiscard]] Variable vocabulary_parallel_cross_entropy(const Variable& logits,
                                                         const Tensor& target,
                                                         const ClassSlab& slab,
                                                         const GroupPtr& group,
                                                         const LossOptions& options = {});

/// vocabulary_parallel_cross_entropy(linear(x, weight), target) for this rank's rows `weight`
/// [slab.count, in] and an x[..., in] that is the input of each rank's part (copy_to_group):
/// linear_cross_entropy, a chunk of rows at a time, with the two all_reduces in all, or
/// for each chunk if gradients are computed in forward. First derivatives only.
[[nodiscard]] Variable vocabulary_parallel_linear_cross_entropy(
    const Variable& x, const Variable& weight, const Tensor& target, const ClassSlab& slab,
    const GroupPtr& group, const LossOptions& options = {},
    LossGradients when = LossGradients::in_forward);

}  // namespace lockstep
