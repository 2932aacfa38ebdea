#include <lockstep/autograd/check_gradients.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

using Loss = std::function<Variable()>;

double value_of(const Loss& loss) {
  const NoGradGuard no_grad;
  return loss().data().item();
}

std::vector<double> as_doubles(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

/// Moves one variable and puts it back when destroyed.
class Moved {
 public:
  explicit Moved(const Tensor& x)
      : x_(x), saved_(x.clone()), values_(as_doubles(x)), next_(values_) {}
  ~Moved() { x_.copy_from(saved_); }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

  [[nodiscard]] const std::vector<double>& values() const { return values_; }

  /// loss at x + h direction.
  double loss_at(const Loss& loss, const std::vector<double>& direction, double h) {
    for (std::size_t i = 0; i < values_.size(); ++i) next_[i] = values_[i] + h * direction[i];
    x_.copy_from(Tensor::from(next_, x_.shape()).to(x_.dtype()));
    return value_of(loss);
  }

 private:
  Tensor x_, saved_;
  std::vector<double> values_, next_;
};

double epsilon_of(DType dtype) {
  return dtype == DType::f64 ? std::numeric_limits<double>::epsilon()
                             : static_cast<double>(std::numeric_limits<float>::epsilon());
}

/// The share of the allowed error that a comparison uses; infinite for NaN.
double use_of(double gradient, double difference, double allowed) {
  const double use = std::abs(gradient - difference) / allowed;
  return std::isnan(use) ? std::numeric_limits<double>::infinity() : use;
}

class Checker {
 public:
  Checker(const Loss& loss, std::string name, const Variable& variable, double base)
      : loss_(loss),
        moved_(variable.data()),
        gradient_(as_doubles(variable.grad())),
        base_(base),
        epsilon_(epsilon_of(variable.data().dtype())) {
    result_.name = std::move(name);
    result_.shape = variable.shape();
  }

  void compare(const std::vector<double>& direction, double scale, const std::string& where) {
    const double h = std::cbrt(epsilon_) * std::max(1.0, scale);
    const double above = moved_.loss_at(loss_, direction, h);
    const double below = moved_.loss_at(loss_, direction, -h);
    double gradient = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) gradient += gradient_[i] * direction[i];
    const double difference = (above - below) / (2 * h);
    const double curvature = std::abs(above - 2 * base_ + below) / h;
    const double allowed =
        curvature + 32 * epsilon_ * std::abs(base_) / h + 32 * epsilon_ * std::abs(difference);
    ++result_.comparisons;
    const double use = use_of(gradient, difference, allowed);
    if (result_.comparisons > 1 && use <= worst_use_) return;
    worst_use_ = use;
    result_.where = where;
    result_.gradient = gradient;
    result_.difference = difference;
    result_.allowed = allowed;
  }

  [[nodiscard]] const std::vector<double>& values() const { return moved_.values(); }
  [[nodiscard]] GradientCheck result() const { return result_; }

 private:
  const Loss& loss_;
  Moved moved_;
  std::vector<double> gradient_;
  double base_, epsilon_;
  double worst_use_ = 0;
  GradientCheck result_;
};

}  // namespace

bool GradientCheck::ok() const { return std::abs(gradient - difference) <= allowed; }

std::vector<GradientCheck> check_gradients(
    const Loss& loss, const std::vector<std::pair<std::string, Variable>>& variables,
    const GradientCheckOptions& options) {
  for (const auto& [name, variable] : variables) {
    if (!variable.requires_grad() || !variable.is_leaf()) {
      throw Error("check_gradients: '" + name + "' is not a leaf that requires a gradient");
    }
    variable.zero_grad();
  }
  loss().backward();
  const double base = value_of(loss);

  std::vector<GradientCheck> results;
  PhiloxSequence random(options.seed, 0);
  for (const auto& [name, variable] : variables) {
    if (!variable.grad().defined()) {
      throw Error(
          "check_gradients: the loss gives '" + name +
          "' no gradient: the loss does not depend on it, or an operation's backward omits it");
    }
    Checker checker(loss, name, variable, base);
    const auto n = static_cast<std::size_t>(variable.data().numel());
    std::vector<double> direction(n, 0.0);
    for (std::int64_t k = 0; n > 0 && k < options.elements; ++k) {
      const std::size_t i = random.below(static_cast<std::uint32_t>(n));
      direction[i] = 1.0;
      checker.compare(direction, std::abs(checker.values()[i]), "element " + std::to_string(i));
      direction[i] = 0.0;
    }
    const double length = 1.0 / std::sqrt(static_cast<double>(std::max<std::size_t>(n, 1)));
    for (double& d : direction) d = random.uniform() < 0.5 ? -length : length;
    checker.compare(direction, 1.0, "a random direction");
    results.push_back(checker.result());
  }
  return results;
}

std::vector<GradientCheck> check_second_gradients(
    const Loss& loss, const std::vector<std::pair<std::string, Variable>>& variables,
    const GradientCheckOptions& options) {
  std::vector<Variable> leaves, weights;
  PhiloxSequence random(options.seed, 1);
  for (const auto& [name, variable] : variables) {
    leaves.push_back(variable);
    std::vector<double> weight(static_cast<std::size_t>(variable.data().numel()));
    for (double& w : weight) w = 2.0 * random.uniform() - 1.0;
    const Tensor& value = variable.data();
    weights.emplace_back(Tensor::from(weight, value.shape()).to(value.dtype()).to(value.device()));
  }
  const auto weighted_gradients = [&] {
    const EnableGradGuard records;
    const auto gradients = grad(loss(), leaves, {.create_graph = true});
    Variable total = sum(gradients[0] * weights[0]);
    for (std::size_t i = 1; i < leaves.size(); ++i) total = total + sum(gradients[i] * weights[i]);
    // The gradients of a linear loss do not depend on its variables.
    for (const Variable& leaf : leaves) total = total + 0.0 * sum(leaf);
    return total;
  };
  return check_gradients(weighted_gradients, variables, options);
}

}  // namespace lockstep
