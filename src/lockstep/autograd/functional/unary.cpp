#include <lockstep/autograd/functional/unary.hpp>

#include <numbers>
#include <utility>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/autograd/operand.hpp>

namespace lockstep {
namespace {

/// The slope of f at x, which is constant between the ends of the pieces.
struct Slope {
  static constexpr bool saves_input = true;
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

/// True if f is piecewise linear.
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

/// Whether PyTorch's autocast computes f in f32.
bool autocasts_to_f32(Unary kind) {
  switch (kind) {
    case Unary::exp:
    case Unary::log:
    case Unary::rsqrt:
    case Unary::reciprocal:
    case Unary::pow:
    case Unary::softplus:
      return true;
    default:
      return false;
  }
}

/// f' of a piecewise linear function: a constant with the shape of x.
Variable slope(const UnaryFunction& f, const Variable& x) {
  const Tensor one = Tensor::empty_like(x.data()), result = Tensor::empty_like(x.data());
  one.fill(1.0);
  unary_backward(f, one, x.data(), false, result);
  return Variable(result);
}

/// 1 where x > 0, else 0.
Variable step(const Variable& x) { return slope({Unary::leaky_relu, 0.0}, x); }

/// f'(x) as a Variable, where y = f(x).
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
      const Variable z = f.a * x, below = step(f.b - z);  // constant at the threshold itself
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
  /// `y` is undefined if the gradient is computed from the input.
  UnaryNode(const UnaryFunction& f, Tensor y) : f_(f), y_(std::move(y)) {
    if (y_.defined()) does_not_save(0);
  }

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

}  // namespace

Variable detail::unary(const UnaryFunction& f, const Variable& input) {
  const auto apply = [&](const Variable& x) {
    const Tensor y = Tensor::empty_like(x.data());
    unary_forward(f, x.data(), y);
    if (is_piecewise_linear(f)) {
      return record<LinearMapNode<Slope>>(y, {&x}, Slope{f, x.data()});
    }
    return record<UnaryNode>(y, {&x}, f, is_known_by_result(f.kind) ? y : Tensor());
  };
  return autocasts_to_f32(f.kind) ? natively_outside_autocast(apply, input)
                                  : natively(apply, input);
}

}  // namespace lockstep
