#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduced_by.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

/// The losses of the rows: unreduced, their sum or their mean.
struct Reduced {
  Tensor loss, divisor;

  Reduced(Tensor losses, const Tensor& target, const LossOptions& options) {
    if (options.reduction == Reduction::none) {
      loss = std::move(losses);
      return;
    }
    loss = Tensor::empty({}, losses.dtype(), losses.device());
    divisor = Tensor::empty({}, losses.dtype(), losses.device());
    reduce_loss(losses, target, options, loss, divisor);
  }
};

/// Of the type in which kernels calculate with x: not rounded yet.
Tensor empty_losses(const Shape& shape, const Tensor& x) {
  return Tensor::empty(shape, sum_dtype(x.dtype()), x.device());
}
Tensor unrounded(const Tensor& grad_loss) { return grad_loss.to(sum_dtype(grad_loss.dtype())); }

/// nll_loss is linear in the log-probabilities.
struct NllLossMap {
  Tensor target;
  LossOptions options;
  Tensor divisor;

  void apply(const Tensor& x, bool accumulate, const Tensor& loss) const {
    accumulate_into(loss, accumulate, [&](const Tensor& to) {
      const Tensor losses = empty_losses(target.shape(), x);
      nll_loss_forward(x, target, options, losses);
      to.copy_from(Reduced(losses, target, options).loss.to(to.dtype()));
    });
  }
  void transpose(const Tensor& loss, bool accumulate, const Tensor& x) const {
    nll_loss_backward(unrounded(loss), divisor, target, options, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "nll_loss"; }
};

class CrossEntropyNode : public PooledNode<CrossEntropyNode> {
 public:
  CrossEntropyNode(Tensor target, const LossOptions& options, Tensor divisor, Tensor row_stats)
      : target_(std::move(target)),
        options_(options),
        divisor_(std::move(divisor)),
        row_stats_(std::move(row_stats)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      cross_entropy_backward(unrounded(grad_output), divisor_, input(0).data(), row_stats_, target_,
                             options_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      return detail::rounded_once(inputs[0], [this](const Variable& x) {
        const Variable p = log_softmax(x, 1);
        const double e = options_.label_smoothing;
        LossOptions options = options_;
        options.label_smoothing = 0.0;
        const Variable loss = nll_loss(p, target_, options);
        return e == 0.0 ? loss : (1.0 - e) * loss - e * smoothing(p);
      });
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "cross_entropy"; }

 private:
  /// sum_c w[c] p[c] / C for the rows that count, reduced like the loss.
  [[nodiscard]] Variable smoothing(const Variable& p) const {
    const std::int64_t classes = p.shape()[1];
    const Tensor counts = Tensor::empty(target_.shape(), p.data().dtype(), p.data().device());
    const Tensor minus_one = Tensor::empty_like(p.data());
    minus_one.fill(-1.0);
    nll_loss_forward(minus_one, target_,
                     {.class_weight = {}, .ignore_index = options_.ignore_index}, counts);
    Variable weighted = p;
    if (const Tensor& weight = options_.class_weight; weight.defined()) {
      weighted = p * Variable(weight.reshape(with_one_extent(p.shape().dims(), 1, classes)));
    }
    Variable rows = sum(weighted, {1}) * Variable(counts) * (1.0 / static_cast<double>(classes));
    if (options_.reduction == Reduction::none) return rows;
    // If no row counts there is no divisor and no gradient.
    const Tensor none = Tensor::empty_like(divisor_);
    arithmetic(Arithmetic::equal, divisor_, Tensor::zeros({}, none.dtype(), none.device()), false,
               none);
    return sum(rows) / masked_fill(Variable(divisor_), none.to(DType::boolean), 1.0);
  }

  Tensor target_;
  LossOptions options_;
  Tensor divisor_;
  Tensor row_stats_;
};

/// cross_entropy with class probabilities as targets.
Variable probability_cross_entropy(const Variable& x, const Tensor& target,
                                   const LossOptions& options) {
  if (x.shape().dims() < 2 || target.shape() != x.shape()) {
    throw ShapeError("cross_entropy of x " + describe(x.data()) + " and probabilities " +
                     describe(target) + ": they are [N, C, ...] both");
  }
  const std::int64_t classes = x.shape()[1];
  check_options("cross_entropy", x.data(), options);
  if (options.ignore_index >= 0) {
    throw InputError("cross_entropy: ignore_index names a class, and the target " +
                     describe(target) + " holds probabilities: leave it out");
  }
  const double e = options.label_smoothing;
  Variable weights(target.to(x.data().dtype()));
  if (e > 0.0) weights = weights * (1.0 - e) + e / static_cast<double>(classes);
  if (const Tensor& weight = options.class_weight; weight.defined()) {
    weights = weights * Variable(weight.reshape(with_one_extent(x.shape().dims(), 1, classes)));
  }
  const Variable losses = -sum(weights * log_softmax(x, 1), {1});
  return detail::reduced_by(losses, options.reduction);
}

}  // namespace

Variable nll_loss(const Variable& input, const Tensor& given, const LossOptions& options) {
  const auto apply = [&](const Variable& x) {
    const Tensor classes = as_indices(given);
    check_loss("nll_loss", x.data(), classes, options);
    const Tensor target = right_targets("nll_loss", classes, x.shape()[1], options.ignore_index);
    const Tensor losses = empty_losses(target.shape(), x.data());
    nll_loss_forward(x.data(), target, options, losses);
    Reduced reduced(losses, target, options);
    return record<LinearMapNode<NllLossMap>>(
        reduced.loss.to(loss_dtype(x)), {&x},
        NllLossMap{target, options, std::move(reduced.divisor)});
  };
  return natively(apply, input);
}

Variable cross_entropy(const Variable& input, const Tensor& given, const LossOptions& options) {
  if (is_floating(given.dtype())) {
    return detail::rounded_once(
        input, [&](const Variable& x) { return probability_cross_entropy(x, given, options); });
  }
  const auto apply = [&](const Variable& x) {
    const Tensor classes = as_indices(given);
    check_loss("cross_entropy", x.data(), classes, options);
    const Tensor target =
        right_targets("cross_entropy", classes, x.shape()[1], options.ignore_index);
    const Tensor losses = empty_losses(target.shape(), x.data());
    Tensor row_stats = empty_losses({2, target.numel()}, x.data());
    cross_entropy_forward(x.data(), target, options, losses, row_stats);
    Reduced reduced(losses, target, options);
    return record<CrossEntropyNode>(reduced.loss.to(loss_dtype(x)), {&x}, target, options,
                                    std::move(reduced.divisor), std::move(row_stats));
  };
  return natively(apply, input);
}

}  // namespace lockstep
