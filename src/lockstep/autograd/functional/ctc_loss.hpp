#pragma once
#include <cstdint>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep {

/// Connectionist temporal classification (Graves et al. 2006): -log of the probability that x says
/// the labels, blanks and repetitions left out. log_probs[T,N,C]; targets[N,S] of which the first
/// target_lengths[N] of a row count, or all labels in one row; input_lengths[N]. These integers may
/// be on another device; where they are with log_probs, nothing waits. mean divides each loss by
/// its labels first. With too few frames the loss is infinite, or 0 with zero_infinity, and has no
/// gradient. Throws ShapeError for other shapes and InputError for a label that is no class or the
/// blank, and for lengths out of range; for log_probs of a device late, as for other wrong targets
/// (docs/guide/devices.md).
[[nodiscard]] Variable ctc_loss(const Operand& log_probs, const Tensor& targets,
                                const Tensor& input_lengths, const Tensor& target_lengths,
                                std::int64_t blank = 0, Reduction reduction = Reduction::mean,
                                bool zero_infinity = false);

}  // namespace lockstep
