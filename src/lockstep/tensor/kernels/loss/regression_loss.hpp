#pragma once
#include <cstdint>

#include <lockstep/tensor/kernels/loss/loss.hpp>

// Losses of each element x against a target t of x's shape and dtype (f32 or f64). A loss is a row
// of a table: its value and its derivative.

namespace lockstep {

enum class ElementLoss : std::uint8_t {
  mse,              ///< (x - t)^2
  l1,               ///< |x - t|
  smooth_l1,        ///< (x - t)^2 / (2 a) where |x - t| < a, else |x - t| - a / 2
  huber,            ///< (x - t)^2 / 2 where |x - t| <= a, else a (|x - t| - a / 2)
  bce,              ///< -(t log x + (1 - t) log(1 - x)), logarithms at least -100
  bce_with_logits,  ///< max(x, 0) - x t + log(1 + exp(-|x|)): nothing overflows
  kl_div,           ///< t (log t - x), 0 where t = 0
  kl_div_log,       ///< exp(t) (t - x)
  poisson_nll_log,  ///< exp(x) - t x; a != 0: + Stirling's t log t - t + log(2 pi t) / 2, t > 1
  poisson_nll,      ///< x - t log(x + b), likewise
  focal,  ///< bce_with_logits (1 - p)^b, times a where t = 1 and 1 - a where t = 0 (a < 0: 1), p
          ///< the target's probability (Lin et al. 2017, arXiv:1708.02002)
};

/// A loss with its numbers.
struct ElementLossFunction {
  ElementLoss kind;
  double a = 0.0, b = 0.0;
};

[[nodiscard]] const char* name_of(ElementLoss kind) noexcept;

/// Throws ShapeError, naming `operation` and printing both, unless x and target fit.
void check_regression(const char* operation, const Tensor& x, const Tensor& target);

/// losses = f(x, target).
void element_loss_forward(const ElementLossFunction& f, const Tensor& x, const Tensor& target,
                          const Tensor& losses);

/// grad_x (+)= the losses' derivative times grad_loss / divisor; grad_loss has one element, or x's
/// shape.
void element_loss_backward(const ElementLossFunction& f, const Tensor& grad_loss, double divisor,
                           const Tensor& x, const Tensor& target, bool accumulate,
                           const Tensor& grad_x);

}  // namespace lockstep
