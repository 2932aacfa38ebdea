#include <lockstep/autograd/functional/arithmetic.hpp>

#include <limits>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/unary.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>

namespace lockstep {
namespace {

Tensor scalar_like(const Tensor& x, double value) {
  return Tensor::full({}, value, x.dtype(), x.device());
}

/// Gives an operand its gradient: scale (a op b), summed over the dimensions in which the operand
/// was broadcast.
void give(const GradTarget& target, Arithmetic op, const Tensor& a, const Tensor& b,
          const Shape& full, double scale = 1) {
  if (target.tensor.shape() == full) {
    return arithmetic(op, a, b, target.accumulate, target.tensor, scale);
  }
  const Tensor unsummed = Tensor::empty(full, a.dtype(), a.device());
  arithmetic(op, a, b, false, unsummed);
  reduce_sum(unsummed, scale, target.accumulate, target.tensor);
}

/// The same for scale times the result's gradient; scale is 1 or -1. One of the two may be f32 and
/// the other of 16 bits.
void give(const GradTarget& target, const Tensor& grad_output, double scale) {
  if (target.tensor.shape() != grad_output.shape()) {
    return reduce_sum(grad_output, scale, target.accumulate, target.tensor);
  }
  if (target.tensor.dtype() == grad_output.dtype()) {
    return arithmetic(Arithmetic::multiply, grad_output, scale, target.accumulate, target.tensor);
  }
  if (!target.accumulate) target.tensor.zero();
  add_scaled(grad_output, scale, target.tensor);
}

/// The gradient of an operand of a sum, in a recorded pass.
Variable share_of(const Variable& grad_output, const Tensor& operand) {
  return to(sum_to_size(grad_output, operand.shape()), operand.dtype());
}

class AddNode : public PooledNode<AddNode> {
 public:
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0;

  void backward(const Tensor& grad_output) override {
    if (const auto b = grad_target(1); b.wanted) give(b, grad_output, 1);
    const Tensor& a = input(0).data();
    if (a.shape() == grad_output.shape() && a.dtype() == grad_output.dtype()) {
      return pass_grad(0, grad_output);
    }
    if (const auto to = grad_target(0); to.wanted) give(to, grad_output, 1);
  }
  void differentiate(Differentiation& d) override {
    for (const int i : {0, 1}) {
      if (d.wants(i)) d.give(i, share_of(d.grad_output(), input(i).data()));
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "add"; }
};

class SubNode : public PooledNode<SubNode> {
 public:
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0;

  void backward(const Tensor& grad_output) override {
    if (const auto b = grad_target(1); b.wanted) give(b, grad_output, -1);
    if (input(0).shape() == grad_output.shape()) return pass_grad(0, grad_output);
    if (const auto a = grad_target(0); a.wanted) give(a, grad_output, 1);
  }
  void differentiate(Differentiation& d) override {
    if (d.wants(0)) d.give(0, sum_to_size(d.grad_output(), input(0).shape()));
    if (d.wants(1)) d.give(1, sum_to_size(-d.grad_output(), input(1).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "sub"; }
};

class MulNode : public PooledNode<MulNode> {
 public:
  static constexpr bool reads_outputs = false;
  static constexpr bool is_bilinear = true;

  void backward(const Tensor& grad_output) override {
    const Shape& full = grad_output.shape();
    if (const auto a = grad_target(0); a.wanted) {
      give(a, Arithmetic::multiply, grad_output, input(1).data(), full);
    }
    if (const auto b = grad_target(1); b.wanted) {
      give(b, Arithmetic::multiply, grad_output, input(0).data(), full);
    }
  }
  void differentiate(Differentiation& d) override {
    for (const int i : {0, 1}) {
      if (d.wants(i)) d.give(i, sum_to_size(d.grad_output() * input(1 - i), input(i).shape()));
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "mul"; }
};

// y = a / b: dy/da = 1 / b, dy/db = -y / b.
class DivNode : public PooledNode<DivNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0b10;

  explicit DivNode(Tensor y) : y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    const Shape& full = grad_output.shape();
    const Tensor& divisor = input(1).data();
    if (const auto a = grad_target(0); a.wanted) {
      give(a, Arithmetic::divide, grad_output, divisor, full);
    }
    if (const auto b = grad_target(1); b.wanted) {
      const bool sums = b.tensor.shape() != full;
      const Tensor all = sums ? Tensor::empty_like(grad_output) : b.tensor;
      multiply_divide(grad_output, y_, divisor, !sums && b.accumulate, all, sums ? 1 : -1);
      if (sums) reduce_sum(all, -1, b.accumulate, b.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable share = d.grad_output() / input(1);
    if (d.wants(0)) d.give(0, sum_to_size(share, input(0).shape()));
    if (d.wants(1)) d.give(1, sum_to_size(-(share * d.output()), input(1).shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "div"; }

 private:
  Tensor y_;
};

// By y: x / (x^2 + y^2); by x: -y / (x^2 + y^2).
class Atan2Node : public PooledNode<Atan2Node> {
 public:
  void backward(const Tensor& grad_output) override {
    const Tensor slope = Tensor::empty_like(grad_output);
    for (const int i : {0, 1}) {
      const auto to = grad_target(i);
      if (!to.wanted) continue;
      arithmetic(Arithmetic::atan2_slope, input(i).data(), input(1 - i).data(), false, slope);
      give(to, Arithmetic::multiply, grad_output, slope, grad_output.shape(), i == 0 ? 1 : -1);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable &y = input(0), &x = input(1);
    const Variable squares = x * x + y * y;
    const Tensor zero = Tensor::empty_like(squares.data());
    arithmetic(Arithmetic::equal, squares.data(), scalar_like(squares.data(), 0.0), false, zero);
    const Tensor at_zero = zero.to(DType::boolean);
    const Variable share =
        masked_fill(d.grad_output() / masked_fill(squares, at_zero, 1.0), at_zero, 0.0);
    if (d.wants(0)) d.give(0, sum_to_size(share * x, y.shape()));
    if (d.wants(1)) d.give(1, sum_to_size(-(share * y), x.shape()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "atan2"; }
};

/// y = number / x: dy/dx = -y / x.
class NumberOverNode : public PooledNode<NumberOverNode> {
 public:
  explicit NumberOverNode(Tensor y) : y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      multiply_divide(grad_output, y_, input(0).data(), x.accumulate, x.tensor, -1);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give(0, -(d.grad_output() * d.output() / input(0)));
  }
  [[nodiscard]] const char* name() const noexcept override { return "number_over"; }

 private:
  Tensor y_;
};

class AddNumberNode : public PooledNode<AddNumberNode> {
 public:
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0;

  void backward(const Tensor& grad_output) override { pass_grad(0, grad_output); }
  void differentiate(Differentiation& d) override { d.give(0, d.grad_output()); }
  [[nodiscard]] const char* name() const noexcept override { return "add_number"; }
};

/// Multiplies x by a number.
struct TimesNumber {
  static constexpr bool symmetric = true;
  double factor;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    arithmetic(Arithmetic::multiply, x, factor, accumulate, y);
  }
  [[nodiscard]] static const char* name() noexcept { return "mul_number"; }
};

/// Divides x by a number.
struct OverNumber {
  static constexpr bool symmetric = true;
  double divisor;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    arithmetic(Arithmetic::divide, x, divisor, accumulate, y);
  }
  [[nodiscard]] static const char* name() noexcept { return "div_number"; }
};

/// x with zeros where the mask is true: the linear part of masked_fill.
struct Unmasked {
  static constexpr bool symmetric = true;
  Tensor mask;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    masked_fill_copy(x, mask, 0, accumulate, y);
  }
  [[nodiscard]] static const char* name() noexcept { return "masked_fill"; }
};

class CastNode : public PooledNode<CastNode> {
 public:
  static constexpr bool reads_inputs = false, reads_outputs = false;
  static constexpr std::uint32_t saved_inputs = 0;

  void backward(const Tensor& grad_output) override {
    if (!input(0).is_leaf()) return pass_grad(0, grad_output.to(input(0).data().dtype()));
    const GradTarget x = grad_target(0);  // may be f32 for a 16-bit leaf
    if (!x.wanted) return;
    accumulate_into(x.tensor, x.accumulate, [&](const Tensor& to) { convert(grad_output, to); });
  }
  void differentiate(Differentiation& d) override {
    d.give(0, to(d.grad_output(), input(0).data().dtype()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "to"; }
};

Tensor combined(const char* operation, Arithmetic op, const Variable& a, const Variable& b) {
  const Shape shape = broadcast_shape(operation, a.data(), b.data());
  Tensor y = shape == a.shape() && shape == b.shape()
                 ? Tensor::empty_like(a.data())
                 : Tensor::empty(shape, a.data().dtype(), a.data().device());
  arithmetic(op, a.data(), b.data(), false, y);
  return y;
}

/// Whether a + b takes an f32 and a 16-bit variable as they are. An Operand's copy is f32 although
/// its variable is not.
bool is_sum_of_two_types(const Variable& a, const Variable& b) {
  const auto is_wide = [](const Variable& x) {
    return x.data().dtype() == DType::f32 && x.record()->rounds_results_to == DType::f32;
  };
  const auto is_narrow = [](const Variable& x) { return is_half(x.data().dtype()); };
  return ((is_wide(a) && is_narrow(b)) || (is_narrow(a) && is_wide(b))) && a.shape() == b.shape() &&
         a.data().device() == b.data().device();
}

Variable sum_of_one_type(const Variable& a, const Variable& b) {
  return record<AddNode>(combined("add", Arithmetic::add, a, b), {&a, &b});
}

Variable sum_of_two_types(const Variable& a, const Variable& b) {
  Tensor y = Tensor::empty(a.shape(), DType::f32, a.data().device());
  arithmetic(Arithmetic::add, a.data(), b.data(), false, y);
  return record<AddNode>(std::move(y), {&a, &b});
}

constexpr double no_bound = std::numeric_limits<double>::quiet_NaN();  // of a clamp

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  // Takes parameters, too: its gradients are of any type.
  if (is_sum_of_two_types(a, b)) return sum_of_two_types(a, b);
  if (a.data().dtype() == b.data().dtype()) return sum_of_one_type(a, b);
  return sum_of_one_type(Operand(a), Operand(b));
}

Variable sub(const Variable& a, const Variable& b) {
  return natively(
      [](const Variable& left, const Variable& right) {
        return record<SubNode>(combined("sub", Arithmetic::subtract, left, right), {&left, &right});
      },
      a, b);
}

Variable mul(const Variable& a, const Variable& b) {
  return natively(
      [](const Variable& left, const Variable& right) {
        return record<MulNode>(combined("mul", Arithmetic::multiply, left, right), {&left, &right});
      },
      a, b);
}

Variable div(const Variable& a, const Variable& b) {
  return natively(
      [](const Variable& left, const Variable& right) {
        const Tensor y = combined("div", Arithmetic::divide, left, right);
        return record<DivNode>(y, {&left, &right}, y);
      },
      a, b);
}

Variable add(const Variable& input, double number) {
  return natively(
      [&](const Variable& x) {
        Tensor y = Tensor::empty_like(x.data());
        arithmetic(Arithmetic::add, x.data(), number, false, y);
        return record<AddNumberNode>(std::move(y), {&x});
      },
      input);
}

Variable mul(const Variable& input, double number) {
  return natively(
      [&](const Variable& x) {
        return linear_map(TimesNumber{number}, x, Tensor::empty_like(x.data()));
      },
      input);
}

Variable div(const Variable& input, double number) {
  return natively(
      [&](const Variable& x) {
        return linear_map(OverNumber{number}, x, Tensor::empty_like(x.data()));
      },
      input);
}

Variable sub(double number, const Variable& x) { return add(mul(x, -1.0), number); }

Variable div(double number, const Variable& input) {
  return natively(
      [&](const Variable& x) {
        const Tensor y = Tensor::empty_like(x.data());
        number_over(number, x.data(), y);
        return record<NumberOverNode>(y, {&x}, y);
      },
      input);
}

Variable exp(const Variable& x) { return detail::unary({Unary::exp}, x); }
Variable log(const Variable& x) { return detail::unary({Unary::log}, x); }
Variable sqrt(const Variable& x) { return detail::unary({Unary::sqrt}, x); }
Variable rsqrt(const Variable& x) { return detail::unary({Unary::rsqrt}, x); }
Variable reciprocal(const Variable& x) { return detail::unary({Unary::reciprocal}, x); }
Variable abs(const Variable& x) { return detail::unary({Unary::abs}, x); }
Variable sin(const Variable& x) { return detail::unary({Unary::sin}, x); }
Variable cos(const Variable& x) { return detail::unary({Unary::cos}, x); }
Variable erf(const Variable& x) { return detail::unary({Unary::erf}, x); }
Variable erfc(const Variable& x) { return detail::unary({Unary::erfc}, x); }

Variable pow(const Variable& x, double exponent) {
  return detail::unary({Unary::pow, exponent}, x);
}

Variable clamp(const Variable& x, double min, double max) {
  return detail::unary({Unary::clamp, min, max}, x);
}
Variable clamp_min(const Variable& x, double min) { return clamp(x, min, no_bound); }
Variable clamp_max(const Variable& x, double max) { return clamp(x, no_bound, max); }

Variable atan2(const Operand& y, const Operand& x) {
  return record<Atan2Node>(combined("atan2", Arithmetic::atan2, y, x), {&y, &x});
}

Variable masked_fill(const Variable& input, const Tensor& mask, double value) {
  if (mask.dtype() != DType::boolean || !broadcasts_to(mask.shape(), input.shape())) {
    throw ShapeError("masked_fill of " + describe(input.data()) + " by mask " + describe(mask) +
                     ": the mask must be bool and broadcastable to x's shape");
  }
  return natively(
      [&](const Variable& x) {
        Tensor y = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
        masked_fill_copy(x.data(), mask, value, false, y);
        return record<LinearMapNode<Unmasked>>(std::move(y), {&x}, Unmasked{mask});
      },
      input);
}

Variable to(const Variable& x, DType dtype) {
  if (!is_floating(dtype)) {
    throw ShapeError("to: " + describe(x.data()) + " as " + std::string(name_of(dtype)) +
                     " has no gradient; convert its data() instead");
  }
  if (dtype == x.data().dtype()) return x;
  return record<CastNode>(x.data().to(dtype), {&x});
}

}  // namespace lockstep
