#include <lockstep/autograd/functional/regression_loss.hpp>

#include <string>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduced_by.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/functional/vector_norm.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/loss/gaussian_nll.hpp>
#include <lockstep/tensor/kernels/loss/regression_loss.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

/// The derivative of the losses by x as a Variable; not available for the focal loss.
Variable derivative(const ElementLossFunction& f, const Variable& x, const Variable& target) {
  switch (f.kind) {
    case ElementLoss::mse:
      return 2.0 * (x - target);
    case ElementLoss::huber:
      return clamp(x - target, -f.a, f.a);
    case ElementLoss::bce:
      return (x - target) / clamp_min((1.0 - x) * x, 1e-12);
    case ElementLoss::bce_with_logits:
      return sigmoid(x) - target;
    case ElementLoss::poisson_nll_log:
      return exp(x) - target;
    case ElementLoss::poisson_nll:
      return 1.0 - target / (x + f.b);
    case ElementLoss::smooth_l1:
      if (f.a > 0.0) return clamp((x - target) / f.a, -1.0, 1.0);
      [[fallthrough]];
    default: {  // piecewise linear
      const Tensor one = Tensor::empty_like(x.data()), slope = Tensor::empty_like(x.data());
      one.fill(1.0);
      element_loss_backward(f, one, 1.0, x.data(), target.data(), false, slope);
      return Variable(slope);
    }
  }
}

/// The losses or, if `shape` is that of a scalar, their sum divided by `divisor`.
Variable reduced(const Variable& losses, const Shape& shape, double divisor) {
  return shape == losses.shape() ? losses : sum(losses) / divisor;
}

class RegressionLossNode : public PooledNode<RegressionLossNode> {
 public:
  RegressionLossNode(const ElementLossFunction& f, Tensor target, double divisor)
      : f_(f), target_(std::move(target)), divisor_(divisor) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      element_loss_backward(f_, grad_output, divisor_, input(0).data(), target_, x.accumulate,
                            x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    if (f_.kind == ElementLoss::focal) {
      return d.give_as([&](std::span<const Variable> inputs) {
        return reduced(focal(inputs[0]), d.output().shape(), divisor_);
      });
    }
    const Variable& x = input(0);
    d.give(0, d.grad_output() / divisor_ * derivative(f_, x, Variable(target_)));
  }
  [[nodiscard]] const char* name() const noexcept override { return name_of(f_.kind); }

 private:
  [[nodiscard]] Variable focal(const Variable& x) const {
    const Variable t(target_), p = sigmoid(x);
    const Variable losses = binary_cross_entropy_with_logits(x, target_, Reduction::none) *
                            pow(p + t - 2.0 * (p * t), f_.b);
    return f_.a < 0.0 ? losses : losses * (f_.a * t + (1.0 - f_.a) * (1.0 - t));
  }

  ElementLossFunction f_;
  Tensor target_;
  double divisor_;
};

class GaussianNllNode : public PooledNode<GaussianNllNode> {
 public:
  GaussianNllNode(Tensor target, double eps, double divisor)
      : target_(std::move(target)), eps_(eps), divisor_(divisor) {}

  void backward(const Tensor& grad_output) override {
    const Tensor &x = input(0).data(), &var = input(1).data();
    if (const auto to = grad_target(0); to.wanted) {
      gaussian_nll_backward_x(grad_output, divisor_, x, target_, var, eps_, to.accumulate,
                              to.tensor);
    }
    if (const auto to = grad_target(1); to.wanted) {
      gaussian_nll_backward_var(grad_output, divisor_, x, target_, var, eps_, to.accumulate,
                                to.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([&](std::span<const Variable> inputs) {
      // Raised to at least eps; the gradient ignores this.
      const Variable var(inputs[1].data());
      const Variable raised = inputs[1] + (clamp_min(var, eps_) - var);
      const Variable losses =
          0.5 * (log(raised) + pow(inputs[0] - Variable(target_), 2.0) / raised);
      return reduced(losses, d.output().shape(), divisor_);
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "gaussian_nll_loss"; }

 private:
  Tensor target_;
  double eps_, divisor_;
};

/// The losses, or their sum divided by `divisor`.
Tensor reduced(const Tensor& losses, Reduction reduction, double divisor) {
  if (reduction == Reduction::none) return losses;
  Tensor total = Tensor::empty({}, losses.dtype(), losses.device());
  reduce_sum(losses, divisor, false, total);
  return total;
}

double divisor_of(const Tensor& losses, Reduction reduction) {
  return reduction == Reduction::mean ? static_cast<double>(losses.numel()) : 1.0;
}

/// A target or weight as the loss calculates with it: one of 16 bits in x's dtype.
Tensor as_operand(const Tensor& target, const Variable& x) {
  return target.defined() && is_half(target.dtype()) ? target.to(x.data().dtype()) : target;
}

Variable element_loss(const ElementLossFunction& f, const Variable& x, const Tensor& target,
                      Reduction reduction, double divisor) {
  const Tensor losses = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  element_loss_forward(f, x.data(), target, losses);
  return record<RegressionLossNode>(reduced(losses, reduction, divisor), {&x}, f, target, divisor);
}

Variable element_loss(const ElementLossFunction& f, const Variable& x, const Tensor& given,
                      Reduction reduction) {
  const Tensor target = as_operand(given, x);
  check_regression(name_of(f.kind), x.data(), target);
  return element_loss(f, x, target, reduction, divisor_of(x.data(), reduction));
}

std::string negative_variance(std::int64_t i, double value) {
  return "gaussian_nll_loss: variances must be at least 0, and element " + std::to_string(i) +
         " is " + std::to_string(value);
}

std::string no_probability(std::int64_t i, double value) {
  return "binary_cross_entropy: element " + std::to_string(i) + " is " + std::to_string(value) +
         ", and probabilities are from 0 to 1. For a network's unbounded outputs, use "
         "binary_cross_entropy_with_logits";
}

void expect_at_least_zero(const char* operation, const char* option, double value) {
  if (value >= 0.0) return;
  throw InputError(std::string(operation) + ": " + option + " must not be negative, and is " +
                   std::to_string(value));
}

void expect_weight(const char* operation, const char* what, const Tensor& x, const Tensor& weight) {
  if (weight.dtype() == x.dtype() && broadcasts_to(weight.shape(), x.shape())) return;
  throw ShapeError(std::string(operation) + " of x " + describe(x) + ": " + what + " " +
                   describe(weight) + " is not of its dtype, or not broadcast to its shape");
}

Variable times_weight(const char* operation, const Variable& losses, const Tensor& given) {
  if (!given.defined()) return losses;
  const Tensor weight = as_operand(given, losses);
  expect_weight(operation, "weight", losses.data(), weight);
  return losses * Variable(weight);
}

}  // namespace

Variable mse_loss(const Operand& x, const Tensor& target, Reduction reduction) {
  return element_loss({ElementLoss::mse}, x, target, reduction);
}

Variable l1_loss(const Operand& x, const Tensor& target, Reduction reduction) {
  return element_loss({ElementLoss::l1}, x, target, reduction);
}

Variable smooth_l1_loss(const Operand& x, const Tensor& target, Reduction reduction, double beta) {
  expect_at_least_zero("smooth_l1_loss", "beta", beta);
  return element_loss({ElementLoss::smooth_l1, beta}, x, target, reduction);
}

Variable huber_loss(const Operand& x, const Tensor& target, Reduction reduction, double delta) {
  if (!(delta > 0.0)) {
    throw InputError("huber_loss: delta must be above 0, and is " + std::to_string(delta));
  }
  return element_loss({ElementLoss::huber, delta}, x, target, reduction);
}

Variable binary_cross_entropy_with_logits(const Operand& x, const Tensor& target,
                                          Reduction reduction, const Tensor& weight,
                                          const Tensor& pos_weight) {
  const ElementLossFunction f{ElementLoss::bce_with_logits};
  if (!weight.defined() && !pos_weight.defined()) return element_loss(f, x, target, reduction);
  return detail::rounded_once(x, [&](const Variable& v) {
    const char* const name = name_of(f.kind);
    Variable losses;
    if (pos_weight.defined()) {
      const Variable t(as_operand(target, v)), positive(as_operand(pos_weight, v));
      check_regression(name, v.data(), t.data());
      expect_weight(name, "pos_weight", v.data(), positive.data());
      losses = -(positive * t * logsigmoid(v) + (1.0 - t) * logsigmoid(-v));
    } else {
      losses = element_loss(f, v, target, Reduction::none);
    }
    return detail::reduced_by(times_weight(name, losses, weight), reduction);
  });
}

Variable binary_cross_entropy(const Operand& x, const Tensor& target, Reduction reduction,
                              const Tensor& weight) {
  const ElementLossFunction f{ElementLoss::bce};
  expect_in_range({.least = 0.0, .most = 1.0, .sentence = no_probability}, x.data());
  if (!weight.defined()) return element_loss(f, x, target, reduction);
  return detail::rounded_once(x, [&](const Variable& v) {
    const Variable losses = element_loss(f, v, target, Reduction::none);
    return detail::reduced_by(times_weight(name_of(f.kind), losses, weight), reduction);
  });
}

Variable kl_div(const Operand& x, const Tensor& given, KlDivReduction reduction, bool log_target) {
  const Tensor target = as_operand(given, x);
  const ElementLossFunction f{log_target ? ElementLoss::kl_div_log : ElementLoss::kl_div};
  check_regression("kl_div", x.data(), target);
  switch (reduction) {
    case KlDivReduction::none:
      return element_loss(f, x, target, Reduction::none);
    case KlDivReduction::sum:
      return element_loss(f, x, target, Reduction::sum);
    case KlDivReduction::mean:
      return element_loss(f, x, target, Reduction::mean);
    case KlDivReduction::batchmean:
      break;
  }
  const double samples = x.shape().dims() > 0 ? static_cast<double>(x.shape()[0]) : 1.0;
  return element_loss(f, x, target, Reduction::mean, samples);
}

Variable poisson_nll_loss(const Operand& x, const Tensor& target, bool log_input, bool full,
                          double eps, Reduction reduction) {
  const auto kind = log_input ? ElementLoss::poisson_nll_log : ElementLoss::poisson_nll;
  return element_loss({kind, full ? 1.0 : 0.0, eps}, x, target, reduction);
}

Variable sigmoid_focal_loss(const Operand& x, const Tensor& target, double alpha, double gamma,
                            Reduction reduction) {
  expect_at_least_zero("sigmoid_focal_loss", "gamma", gamma);
  return element_loss({ElementLoss::focal, alpha, gamma}, x, target, reduction);
}

namespace {

/// gaussian_nll_loss of f32 or f64.
Variable gaussian_nll(const Variable& x, const Tensor& given, const Variable& var, bool full,
                      double eps, Reduction reduction) {
  const Tensor target = as_operand(given, x);
  check_regression("gaussian_nll_loss", x.data(), target);
  if (!(eps > 0.0)) {
    throw InputError("gaussian_nll_loss: eps must be above 0, and is " + std::to_string(eps));
  }
  Variable each = var;
  if (var.shape() != x.shape()) {
    // One variance for a whole last dimension, which may be missing or 1.
    if (var.shape().dims() == x.shape().dims() - 1) {
      each = add(reshape(var, with_extent(x.shape(), x.shape().dims() - 1, 1)),
                 Variable(Tensor::zeros(x.shape(), x.data().dtype(), x.data().device())));
    } else {
      each = add(var, Variable(Tensor::zeros(x.shape(), x.data().dtype(), x.data().device())));
    }
  }
  check_regression("gaussian_nll_loss", x.data(), each.data());
  expect_in_range({.sentence = negative_variance}, var.data());
  const Tensor losses = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  gaussian_nll_forward(x.data(), target, each.data(), full, eps, losses);
  const double divisor = divisor_of(losses, reduction);
  return record<GaussianNllNode>(reduced(losses, reduction, divisor), {&x, &each}, target, eps,
                                 divisor);
}

}  // namespace

Variable gaussian_nll_loss(const Operand& x, const Tensor& target, const Operand& var, bool full,
                           double eps, Reduction reduction) {
  return detail::rounded_once(x, var, [&](const Variable& mean, const Variable& variance) {
    return gaussian_nll(mean, target, variance, full, eps, reduction);
  });
}

}  // namespace lockstep
