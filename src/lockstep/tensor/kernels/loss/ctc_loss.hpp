#pragma once
#include <cstdint>

#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/tensor/tensor.hpp>

// Connectionist temporal classification (Graves et al. 2006, ICML). Nothing waits for a device.

namespace lockstep {

/// The targets of a batch of N samples, i64, on the device of the log-probabilities: copies, with
/// valid numbers in place of wrong ones.
struct CtcTargets {
  Tensor labels;   ///< [L]: those of all samples
  Tensor first;    ///< [N]: the place of each sample's first label
  Tensor lengths;  ///< [N]: how many labels it has
  Tensor frames;   ///< [N]: how many of the T frames are the sample's
  std::int64_t blank = 0;
};

/// Of x[T,N,C]: targets[N,S] of which the first target_lengths[N] of a row count, or all labels in
/// one row; input_lengths[N]. Integers on any device. Throws ShapeError for other shapes,
/// InputError if `blank` is no class, and for labels that are no class or the blank and lengths out
/// of range, which a device reports late (index_check.hpp).
[[nodiscard]] CtcTargets ctc_targets(const Tensor& x, const Tensor& targets,
                                     const Tensor& input_lengths, const Tensor& target_lengths,
                                     std::int64_t blank);

/// losses[N] = -log p(labels | x), x[T,N,C] log-probabilities, f32 or f64; infinite where the
/// frames are too few. Returns the logarithms of the forward variables, for backward: sample n's
/// are T rows of 2 lengths[n] + 1 states, from row 2 first[n] + n of length T on.
[[nodiscard]] Tensor ctc_forward(const Tensor& x, const CtcTargets& targets, const Tensor& losses);

/// result = the losses ([N]), their sum, or the mean of each divided by its labels ([]); with
/// zero_infinity infinite ones are 0. factors[N], f64, are the losses' shares in it.
void ctc_reduce(const Tensor& losses, const CtcTargets& targets, Reduction reduction,
                bool zero_infinity, const Tensor& factors, const Tensor& result);

/// grad_x (+)= the losses' derivatives by x times grad_losses[N]; none for an infinite loss. Sums
/// are in the order of the states, on every device.
void ctc_backward(const Tensor& grad_losses, const Tensor& x, const CtcTargets& targets,
                  const Tensor& alpha, const Tensor& losses, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
