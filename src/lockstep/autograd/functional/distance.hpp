#pragma once
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

// Distances between rows, and the losses that are made of them. Rows of bf16 and f16 are computed
// in f32 and the result is rounded once, so that eps counts. For a row of infinite length the
// result is 0 or NaN, as in PyTorch.

namespace lockstep {

/// The p-norm of x1 - x2 + eps over the last dimension; x1 and x2 are broadcast; p may be infinite.
/// With eps = 0 the gradient of equal rows is 0. Throws InputError unless p > 0.
[[nodiscard]] Variable pairwise_distance(const Operand& x1, const Operand& x2, double p = 2.0,
                                         double eps = 1e-6, bool keepdim = false);

/// x / max(its p-norm along `dim`, eps).
[[nodiscard]] Variable normalize(const Operand& x, double p = 2.0, int dim = 1, double eps = 1e-12);

/// x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim` of the shape that x1 and x2 are
/// broadcast to.
[[nodiscard]] Variable cosine_similarity(const Operand& x1, const Operand& x2, int dim = 1,
                                         double eps = 1e-8);

/// torch.nn.TripletMarginLoss's options.
struct TripletMarginOptions {
  double margin = 1.0;
  double p = 2.0;
  double eps = 1e-6;
  bool swap = false;  ///< the negative's distance is to the nearer of anchor and positive
  Reduction reduction = Reduction::mean;
};

/// max(d(anchor, positive) - d(anchor, negative) + margin, 0) for each row, d the pairwise_distance
/// (Balntas et al. 2016, BMVC).
[[nodiscard]] Variable triplet_margin_loss(const Operand& anchor, const Operand& positive,
                                           const Operand& negative,
                                           const TripletMarginOptions& options = {});

/// For rows x1, x2 [N, D] (or [D]) with the cosine c between them: 1 - c where the target is 1,
/// max(c - margin, 0) where it is -1. Throws ShapeError unless there is a target for each row.
[[nodiscard]] Variable cosine_embedding_loss(const Operand& x1, const Operand& x2,
                                             const Tensor& target, double margin = 0.0,
                                             Reduction reduction = Reduction::mean);

}  // namespace lockstep
