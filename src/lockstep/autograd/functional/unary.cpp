#include <limits>
#include <numbers>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/unary.hpp>

namespace lockstep {
namespace {

/// The slope of f at x, which does not depend on x but at the places where pieces meet.
struct Slope {
  UnaryFunction f;
  Tensor x;

  void apply(const Tensor& from, bool accumulate, const Tensor& to) const {
    unary_backward(f, from, x, accumulate, to);
  }
  void transpose(const Tensor& from, bool accumulate, const Tensor& to) const {
    apply(from, accumulate, to);
  }
  [[nodiscard]] const char* name() const noexcept { return name_of(f.kind); }
};

/// Whether f consists of straight pieces.
bool is_piecewise_linear(const UnaryFunction& f) {
  switch (f.kind) {
    case Unary::abs:
    case Unary::clamp:
    case Unary::leaky_relu:
    case Unary::hardtanh:
    case Unary::hardsigmoid:
      return true;
    case Unary::pow:
      return f.a == 0.0 || f.a == 1.0;
    default:
      return false;
  }
}

/// f' of such a function: a constant of x's shape.
Variable slope(const UnaryFunction& f, const Variable& x) {
  const Tensor one = Tensor::empty_like(x.data()), result = Tensor::empty_like(x.data());
  one.fill(1.0);
  unary_backward(f, one, x.data(), false, result);
  return Variable(result);
}

/// 1 where x > 0, else 0.
Variable step(const Variable& x) { return slope({Unary::leaky_relu, 0.0}, x); }

/// f'(x), by operations, where y = f(x).
Variable derivative(const UnaryFunction& f, const Variable& x, const Variable& y) {
  switch (f.kind) {
    case Unary::exp:
      return y;
    case Unary::log:
      return reciprocal(x);
    case Unary::sqrt:
      return 0.5 / y;
    case Unary::rsqrt:
      return -0.5 * pow(y, 3.0);
    case Unary::reciprocal:
      return -pow(y, 2.0);
    case Unary::sin:
      return cos(x);
    case Unary::cos:
      return -sin(x);
    case Unary::erf:
      return 2.0 * std::numbers::inv_sqrtpi * exp(-pow(x, 2.0));
    case Unary::erfc:
      return -2.0 * std::numbers::inv_sqrtpi * exp(-pow(x, 2.0));
    case Unary::pow:
      return f.a * pow(x, f.a - 1.0);
    case Unary::elu: {
      const double below = f.a * f.b * f.c;
      return below * exp(f.c * clamp_max(x, 0.0)) + (f.b - below) * step(x);
    }
    case Unary::softplus: {
      const Variable z = f.a * x, below = step(f.b - z);  // at the threshold itself constant
      return below * sigmoid(z) + (1.0 - below) * slope(f, x);
    }
    case Unary::softsign:
      return pow(1.0 - abs(y), 2.0);
    case Unary::hardswish:
      return slope({Unary::clamp, -3.0, 3.0}, x) * (x / 3.0 + 0.5) + (1.0 - step(3.0 - x));
    case Unary::mish: {
      const Variable gate = tanh(softplus(x));
      return gate + x * (1.0 - pow(gate, 2.0)) * sigmoid(x);
    }
    case Unary::log_sigmoid:
      return sigmoid(-x);
    default:
      return slope(f, x);
  }
}

class UnaryNode : public PooledNode<UnaryNode> {
 public:
  /// `y` is undefined for a function that is known by what it read.
  UnaryNode(const UnaryFunction& f, Tensor y) : f_(f), y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      const Tensor& saved = y_.defined() ? y_ : input(0).data();
      unary_backward(f_, grad_output, saved, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give(0, d.grad_output() * derivative(f_, input(0), d.output()));
  }
  [[nodiscard]] const char* name() const noexcept override { return name_of(f_.kind); }

 private:
  UnaryFunction f_;
  Tensor y_;
};

Variable apply(const UnaryFunction& f, const Variable& x) {
  const Tensor y = Tensor::empty_like(x.data());
  unary_forward(f, x.data(), y);
  if (is_piecewise_linear(f)) return record<LinearMapNode<Slope>>(y, {&x}, Slope{f, x.data()});
  return record<UnaryNode>(y, {&x}, f, is_known_by_result(f.kind) ? y : Tensor());
}

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace

Variable exp(const Operand& x) { return apply({Unary::exp}, x); }
Variable log(const Operand& x) { return apply({Unary::log}, x); }
Variable sqrt(const Operand& x) { return apply({Unary::sqrt}, x); }
Variable rsqrt(const Operand& x) { return apply({Unary::rsqrt}, x); }
Variable reciprocal(const Operand& x) { return apply({Unary::reciprocal}, x); }
Variable abs(const Operand& x) { return apply({Unary::abs}, x); }
Variable sin(const Operand& x) { return apply({Unary::sin}, x); }
Variable cos(const Operand& x) { return apply({Unary::cos}, x); }
Variable erf(const Operand& x) { return apply({Unary::erf}, x); }
Variable erfc(const Operand& x) { return apply({Unary::erfc}, x); }

Variable pow(const Operand& x, double exponent) { return apply({Unary::pow, exponent}, x); }

Variable clamp(const Operand& x, double min, double max) {
  return apply({Unary::clamp, min, max}, x);
}
Variable clamp_min(const Operand& x, double min) { return clamp(x, min, infinity); }
Variable clamp_max(const Operand& x, double max) { return clamp(x, -infinity, max); }

Variable leaky_relu(const Operand& x, double negative_slope) {
  return apply({Unary::leaky_relu, negative_slope}, x);
}

Variable elu(const Operand& x, double alpha) { return apply({Unary::elu, alpha, 1.0, 1.0}, x); }

Variable celu(const Operand& x, double alpha) {
  if (alpha == 0.0) throw InputError("celu: alpha must not be 0");
  return apply({Unary::elu, alpha, 1.0, 1.0 / alpha}, x);
}

Variable selu(const Operand& x) {
  return apply({Unary::elu, 1.6732632423543772, 1.0507009873554805, 1.0}, x);
}

Variable softplus(const Operand& x, double beta, double threshold) {
  if (beta == 0.0) throw InputError("softplus: beta must not be 0");
  return apply({Unary::softplus, beta, threshold}, x);
}

Variable softsign(const Operand& x) { return apply({Unary::softsign}, x); }

Variable hardtanh(const Operand& x, double min_val, double max_val) {
  if (!(min_val < max_val)) {
    throw InputError("hardtanh: min_val (" + std::to_string(min_val) + ") must be below max_val (" +
                     std::to_string(max_val) + ")");
  }
  return apply({Unary::hardtanh, min_val, max_val}, x);
}

Variable relu6(const Operand& x) { return hardtanh(x, 0.0, 6.0); }
Variable hardsigmoid(const Operand& x) { return apply({Unary::hardsigmoid}, x); }
Variable hardswish(const Operand& x) { return apply({Unary::hardswish}, x); }
Variable mish(const Operand& x) { return apply({Unary::mish}, x); }
Variable logsigmoid(const Operand& x) { return apply({Unary::log_sigmoid}, x); }

}  // namespace lockstep
