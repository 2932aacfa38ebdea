#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Connectionist temporal classification (Graves et al. 2006, ICML), on the host or a
// simulated device.

namespace lockstep {

/// The checked targets of a batch: the labels of all samples one after the other. i64, on the
/// device of the log-probabilities.
struct CtcTargets {
  Tensor labels;
  Tensor first;   ///< [N + 1]: start of each sample's labels
  Tensor frames;  ///< [N]: how many of the T frames are the sample's
  std::int64_t blank = 0;
};

/// losses[N] = -log p(labels | x), x[T,N,C] log-probabilities, f32 or f64; infinite where the
/// frames are too few. alpha [N, T, 2 longest + 1] keeps the forward variables, their logarithms.
void ctc_forward(const Tensor& x, const CtcTargets& targets, const Tensor& alpha,
                 const Tensor& losses);

/// grad_x (+)= the losses' derivatives by x times grad_losses[N]; none for an infinite loss.
void ctc_backward(const Tensor& grad_losses, const Tensor& x, const CtcTargets& targets,
                  const Tensor& alpha, const Tensor& losses, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
