#pragma once
// ctc_loss on a device, with the host's bits on a simulated one. Private to ctc_loss.cpp.
#include <cmath>
#include <limits>

#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/loss/ctc_loss.hpp>

namespace lockstep::detail {

/// log(exp a + exp b + exp c).
template <class T>
LOCKSTEP_FUNCTION inline T log_sum(T a, T b, T c) {
  const T ab = a < b ? b : a, largest = ab < c ? c : ab;
  const T at = largest == -std::numeric_limits<T>::infinity() ? T{0} : largest;
  return math::log(math::exp(a - at) + math::exp(b - at) + math::exp(c - at)) + at;
}

/// As ctc_forward, into alpha.
void ctc_forward_on_device(const Tensor& x, const CtcTargets& targets, const Tensor& alpha,
                           const Tensor& losses);
/// Adds to grad_x.
void ctc_backward_on_device(const Tensor& grad_losses, const Tensor& x, const CtcTargets& targets,
                            const Tensor& alpha, const Tensor& losses, const Tensor& grad_x);

}  // namespace lockstep::detail
