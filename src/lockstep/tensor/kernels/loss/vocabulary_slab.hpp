#pragma once
#include <cstdint>

#include <lockstep/tensor/kernels/loss/loss.hpp>

// Embedding and cross entropy where a rank holds a slab of the classes (the vocabulary). Logits are
// [rows, slab.count], targets i64[rows] classes or ignore_index, options.class_weight is that of
// all classes. dtypes are as in loss.hpp.

namespace lockstep {

/// Classes [first, first + count) of `classes`.
struct ClassSlab {
  std::int64_t first = 0, count = 0, classes = 0;
};

/// The index to compute with; all are classes: right_indices (index_check.hpp) for an embedding.
[[nodiscard]] Tensor right_classes(const Tensor& index, const ClassSlab& slab);

/// local[i] = index[i] - first and mask[i] = 1 for classes of the slab, else 0 and 0. mask is of
/// index's shape.
void rows_of_slab(const Tensor& index, const ClassSlab& slab, const Tensor& local,
                  const Tensor& mask);

/// stats [4, rows], of this slab: the maximum m; sum exp(x - m); w[t] (x[t] - m), or 0 if the
/// target t is not in the slab or ignored; sum w[c] (x[c] - m) if there is label smoothing, else 0.
/// Where m is -infinity, the last three rows are those of m = 0.
void cross_entropy_slab_forward(const Tensor& x, const Tensor& target, const ClassSlab& slab,
                                const LossOptions& options, const Tensor& stats);

/// Turns `stats` to the maximum of all slabs, `maximum` [rows]: then the last three rows are
/// summands. stats(0) becomes `maximum`.
void cross_entropy_slab_rescale(const Tensor& maximum, const Tensor& target, const ClassSlab& slab,
                                const LossOptions& options, const Tensor& stats);

/// losses[rows] as cross_entropy_forward's, from the summed stats; stats(1) becomes the logarithm
/// of the sum.
void cross_entropy_slab_loss(const Tensor& target, const ClassSlab& slab,
                             const LossOptions& options, const Tensor& stats, const Tensor& losses);

/// grad_x (+)= the gradient, as cross_entropy_backward, for stats(0) and stats(1) of above. x may
/// have further dimensions, [N, slab.count, ...], with a target [N, ...]. One kernel serves both
/// (cross_entropy.cpp).
void cross_entropy_slab_backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& x,
                                 const Tensor& stats, const Tensor& target, const ClassSlab& slab,
                                 const LossOptions& options, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
