#include <lockstep/autograd/functional/activation.hpp>

#include <numbers>
#include <string>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/scale_map.hpp>
#include <lockstep/autograd/functional/unary.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/activation.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>

namespace lockstep {
namespace {

/// The slope of the relu whose output is y.
struct ReluSlope {
  static constexpr bool symmetric = true;
  Tensor y;

  void apply(const Tensor& x, bool accumulate, const Tensor& to) const {
    relu_backward(x, y, accumulate, to);
  }
  [[nodiscard]] static const char* name() noexcept { return "relu"; }
};

class GeluNode : public PooledNode<GeluNode> {
 public:
  explicit GeluNode(Gelu approximation) : approximation_(approximation) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      gelu_backward(grad_output, input(0).data(), approximation_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const Variable& x = inputs[0];
      if (approximation_ == Gelu::exact) return 0.5 * x * erfc(x * (-std::numbers::sqrt2 / 2.0));
      const double factor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
      return x * sigmoid(2.0 * factor * (x + 0.044715 * pow(x, 3.0)));
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "gelu"; }

 private:
  Gelu approximation_;
};

class SiluNode : public PooledNode<SiluNode> {
 public:
  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      silu_backward(grad_output, input(0).data(), x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable s = sigmoid(input(0));
    d.give(0, d.grad_output() * (s + d.output() * (1.0 - s)));
  }
  [[nodiscard]] const char* name() const noexcept override { return "silu"; }
};

class SigmoidNode : public PooledNode<SigmoidNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit SigmoidNode(Tensor y) : y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      sigmoid_backward(grad_output, y_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give(0, d.grad_output() * (d.output() * sigmoid(-input(0))));  // 1 - y with full accuracy
  }
  [[nodiscard]] const char* name() const noexcept override { return "sigmoid"; }

 private:
  Tensor y_;
};

class TanhNode : public PooledNode<TanhNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  explicit TanhNode(Tensor y) : y_(std::move(y)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      tanh_backward(grad_output, y_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give(0, d.grad_output() * (1.0 - d.output() * d.output()));
  }
  [[nodiscard]] const char* name() const noexcept override { return "tanh"; }

 private:
  Tensor y_;
};

class SoftmaxNode : public PooledNode<SoftmaxNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0;

  SoftmaxNode(Tensor y, int dim) : y_(std::move(y)), dim_(dim) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      softmax_backward(grad_output, y_, dim_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    const Variable weighted = d.grad_output() * d.output();
    d.give(0, weighted - d.output() * sum(weighted, {dim_}, true));
  }
  [[nodiscard]] const char* name() const noexcept override { return "softmax"; }

 private:
  Tensor y_;
  int dim_;
};

class LogSoftmaxNode : public PooledNode<LogSoftmaxNode> {
 public:
  LogSoftmaxNode(Tensor x_or_y, int dim) : x_or_y_(std::move(x_or_y)), dim_(dim) {
    if (!is_half(x_or_y_.dtype())) does_not_save(0);
  }

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      log_softmax_backward(grad_output, x_or_y_, dim_, x.accumulate, x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give(0, d.grad_output() - exp(d.output()) * sum(d.grad_output(), {dim_}, true));
  }
  [[nodiscard]] const char* name() const noexcept override { return "log_softmax"; }

 private:
  Tensor x_or_y_;
  int dim_;
};

/// For operations that depend on positions: channel blocks store an image in another order.
Tensor empty_plain(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

/// The result of dropping all elements: 0, also for infinities and NaN.
struct DropAll {
  static constexpr bool symmetric = true;

  void apply(const Tensor&, bool accumulate, const Tensor& y) const {
    if (!accumulate) y.zero();
  }
  [[nodiscard]] static const char* name() noexcept { return "dropout"; }
};

/// Multiplies each element or channel by 0 or 1 / (1 - p).
Variable scaled(const Variable& input, const Shape& scale_shape, double p, const RandomKey& key) {
  return natively(
      [&](const Variable& x) {
        const Tensor& data = x.data();
        if (p == 1.0) return linear_map(DropAll{}, x, empty_plain(data));
        const DType dtype = is_half(data.dtype()) ? DType::boolean : data.dtype();
        Tensor scale = Tensor::empty(scale_shape, dtype, data.device());
        dropout_scale(p, key, scale);
        return linear_map(detail::ScaleMap{"dropout", std::move(scale), 1.0 / (1.0 - p)}, x,
                          empty_plain(data));
      },
      input);
}

Variable channels_scaled(const char* operation, const char* wanted, int dims, const Variable& x,
                         double p, const RandomKey& key) {
  if (x.shape().dims() != dims) {
    throw ShapeError(std::string(operation) + " takes " + wanted + ", not " + describe(x.data()));
  }
  return scaled(x, {x.shape()[0], x.shape()[1]}, p, key);
}

}  // namespace

Variable relu(const Variable& input) {
  return natively(
      [](const Variable& x) {
        Tensor y = Tensor::empty_like(x.data());
        relu_forward(x.data(), y);
        return record<LinearMapNode<ReluSlope>>(y, {&x}, ReluSlope{y});
      },
      input);
}

Variable gelu(const Variable& input, Gelu approximation) {
  return natively(
      [&](const Variable& x) {
        Tensor y = Tensor::empty_like(x.data());
        gelu_forward(x.data(), approximation, y);
        return record<GeluNode>(std::move(y), {&x}, approximation);
      },
      input);
}

Variable silu(const Variable& input) {
  return natively(
      [](const Variable& x) {
        Tensor y = Tensor::empty_like(x.data());
        silu_forward(x.data(), y);
        return record<SiluNode>(std::move(y), {&x});
      },
      input);
}

Variable sigmoid(const Variable& input) {
  return natively(
      [](const Variable& x) {
        Tensor y = Tensor::empty_like(x.data());
        sigmoid_forward(x.data(), y);
        return record<SigmoidNode>(y, {&x}, y);
      },
      input);
}

Variable tanh(const Variable& input) {
  return natively(
      [](const Variable& x) {
        Tensor y = Tensor::empty_like(x.data());
        tanh_forward(x.data(), y);
        return record<TanhNode>(y, {&x}, y);
      },
      input);
}

Variable leaky_relu(const Variable& x, double negative_slope) {
  return detail::unary({Unary::leaky_relu, negative_slope}, x);
}

Variable elu(const Variable& x, double alpha) {
  return detail::unary({Unary::elu, alpha, 1.0, 1.0}, x);
}

Variable celu(const Variable& x, double alpha) {
  if (alpha == 0.0) throw InputError("celu: alpha must not be 0");
  return detail::unary({Unary::elu, alpha, 1.0, 1.0 / alpha}, x);
}

Variable selu(const Variable& x) {
  return detail::unary({Unary::elu, 1.6732632423543772, 1.0507009873554805, 1.0}, x);
}

Variable softplus(const Variable& x, double beta, double threshold) {
  if (beta == 0.0) throw InputError("softplus: beta must not be 0");
  return detail::unary({Unary::softplus, beta, threshold}, x);
}

Variable softsign(const Variable& x) { return detail::unary({Unary::softsign}, x); }

Variable hardtanh(const Variable& x, double min_val, double max_val) {
  if (!(min_val < max_val)) {
    throw InputError("hardtanh: min_val (" + std::to_string(min_val) + ") must be below max_val (" +
                     std::to_string(max_val) + ")");
  }
  return detail::unary({Unary::hardtanh, min_val, max_val}, x);
}

Variable relu6(const Variable& x) { return hardtanh(x, 0.0, 6.0); }
Variable hardsigmoid(const Variable& x) { return detail::unary({Unary::hardsigmoid}, x); }
Variable hardswish(const Variable& x) { return detail::unary({Unary::hardswish}, x); }
Variable mish(const Variable& x) { return detail::unary({Unary::mish}, x); }
Variable logsigmoid(const Variable& x) { return detail::unary({Unary::log_sigmoid}, x); }

Variable softmax(const Variable& input, int dim) {
  return natively_outside_autocast(
      [&](const Variable& x) {
        Tensor y = empty_plain(x.data());
        softmax_forward(x.data(), dim, y);
        return record<SoftmaxNode>(y, {&x}, y, dim);
      },
      input);
}

Variable log_softmax(const Variable& input, int dim) {
  return natively_outside_autocast(
      [&](const Variable& x) {
        Tensor y = empty_plain(x.data());
        log_softmax_forward(x.data(), dim, y);
        return record<LogSoftmaxNode>(y, {&x}, is_half(y.dtype()) ? x.data() : y, dim);
      },
      input);
}

Variable dropout(const Variable& x, double p, const RandomKey& key) {
  return scaled(x, x.shape(), p, key);
}

Variable dropout1d(const Variable& x, double p, const RandomKey& key) {
  return channels_scaled("dropout1d", "[N, C, L]", 3, x, p, key);
}

Variable dropout2d(const Variable& x, double p, const RandomKey& key) {
  return channels_scaled("dropout2d", "[N, C, H, W]", 4, x, p, key);
}

Variable dropout3d(const Variable& x, double p, const RandomKey& key) {
  return channels_scaled("dropout3d", "[N, C, D, H, W]", 5, x, p, key);
}

}  // namespace lockstep
