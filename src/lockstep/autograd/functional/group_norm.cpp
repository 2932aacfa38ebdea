#include <lockstep/autograd/functional/group_norm.hpp>

#include <string>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/natively_beside.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/resample.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/norm/group_norm.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

class GroupNormNode : public PooledNode<GroupNormNode> {
 public:
  static constexpr std::uint32_t saved_inputs = 0b011;

  GroupNormNode(std::int64_t groups, Tensor mean, Tensor rstd, double eps)
      : groups_(groups), mean_(std::move(mean)), rstd_(std::move(rstd)), eps_(eps) {}

  void backward(const Tensor& grad_output) override {
    const Tensor& x = input(0).data();
    const Tensor weight = input(1).defined() ? input(1).data() : Tensor();
    const Shape channels{x.size(0), x.size(1)};
    const Tensor sums = Tensor::zeros(channels, mean_.dtype(), x.device());
    const Tensor products = Tensor::zeros(channels, mean_.dtype(), x.device());
    group_norm_sums(grad_output, x, groups_, mean_, rstd_, sums, products);
    const auto give = [&](int i, const Tensor& parts) {
      const auto to = grad_target(i);
      if (to.wanted) reduce_sum(parts, 1, to.accumulate, to.tensor.reshape({1, x.size(1)}));
    };
    give(2, sums);
    give(1, products);
    if (const auto to = grad_target(0); to.wanted) {
      group_norm_backward(grad_output, x, groups_, weight, mean_, rstd_, sums, products,
                          to.accumulate, to.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const Variable &weight = inputs[1], &bias = inputs[2];
      return detail::rounded_once(inputs[0], [&](const Variable& x) {
        const Variable rows =
            reshape(x, {x.shape()[0], groups_, x.shape().with_leading(1).numel() / groups_});
        const Variable centred = rows - mean(rows, {2}, true);
        Variable y = reshape(centred * rsqrt(mean(pow(centred, 2.0), {2}, true) + eps_), x.shape());
        const Shape channels = with_one_extent(x.shape().dims(), 1, x.shape()[1]);
        if (weight.defined()) y = y * reshape(weight, channels);
        return bias.defined() ? y + reshape(bias, channels) : y;
      });
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "group_norm"; }

 private:
  std::int64_t groups_;
  Tensor mean_, rstd_;
  double eps_;
};

class LocalResponseNode : public PooledNode<LocalResponseNode> {
 public:
  LocalResponseNode(const LocalResponse& options, Tensor scale)
      : options_(options), scale_(std::move(scale)) {}

  void backward(const Tensor& grad_output) override {
    if (const auto x = grad_target(0); x.wanted) {
      local_response_norm_backward(grad_output, input(0).data(), options_, scale_, x.accumulate,
                                   x.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) {
      const Variable& x = inputs[0];
      const std::int64_t size = options_.size;
      std::vector<std::int64_t> around(2 * static_cast<std::size_t>(x.shape().dims() - 2), 0);
      around.insert(around.end(), {size / 2, (size - 1) / 2});
      const Variable squares = pad(pow(x, 2.0), around);
      Variable sums = narrow(squares, 1, 0, x.shape()[1]);
      for (std::int64_t i = 1; i < size; ++i) {
        sums = sums + narrow(squares, 1, i, x.shape()[1]);
      }
      const double share = options_.alpha / static_cast<double>(size);
      return x * pow(options_.k + share * sums, -options_.beta);
    });
  }
  [[nodiscard]] const char* name() const noexcept override { return "local_response_norm"; }

 private:
  LocalResponse options_;
  Tensor scale_;
};

void expect_channels(const char* operation, const Variable& x, const Variable& parameter) {
  if (!parameter.defined()) return;
  const DType dtype = sum_dtype(x.data().dtype());
  if (parameter.shape() == Shape{x.shape()[1]} && parameter.data().dtype() == dtype) return;
  throw ShapeError(std::string(operation) + " of " + describe(x.data()) + " with weight or bias " +
                   describe(parameter.data()) + ": they are [C], of x's dtype");
}

Variable normalised(const char* operation, const Variable& input, std::int64_t groups,
                    const Operand& weight, const Operand& bias, double eps) {
  const auto apply = [&](const Variable& x) {
    const Tensor& in = x.data();
    expect_channels(operation, x, weight);
    expect_channels(operation, x, bias);
    const Shape rows{in.size(0), groups};
    const Tensor mean = Tensor::empty(rows, sum_dtype(in.dtype()), in.device());
    const Tensor rstd = Tensor::empty_like(mean);
    Tensor y = Tensor::empty(in.shape(), in.dtype(), in.device());
    group_norm_forward(in, groups, weight.defined() ? weight.data() : Tensor(),
                       bias.defined() ? bias.data() : Tensor(), eps, y, mean, rstd);
    return record<GroupNormNode>(std::move(y), {&x, &weight, &bias}, groups, mean, rstd, eps);
  };
  return detail::natively_beside(apply, input, weight, bias);
}

}  // namespace

Variable group_norm(const Variable& x, std::int64_t num_groups, const Operand& weight,
                    const Operand& bias, double eps) {
  if (x.shape().dims() < 2 || num_groups < 1 || x.shape()[1] % num_groups != 0) {
    throw ShapeError("group_norm of " + describe(x.data()) + " in " + std::to_string(num_groups) +
                     " groups: x is [N, C, ...], and the groups divide C");
  }
  return normalised("group_norm", x, num_groups, weight, bias, eps);
}

Variable instance_norm(const Variable& x, const Operand& weight, const Operand& bias, double eps) {
  const Shape& shape = x.shape();
  if (shape.dims() < 3 || (shape.numel() > 0 && shape.numel() == shape[0] * shape[1])) {
    throw ShapeError("instance_norm of " + describe(x.data()) +
                     ": x is [N, C, L], [N, C, H, W] or [N, C, D, H, W] with more than one value "
                     "a channel");
  }
  return normalised("instance_norm", x, shape[1], weight, bias, eps);
}

Variable local_response_norm(const Operand& x, std::int64_t size, double alpha, double beta,
                             double k) {
  if (x.shape().dims() < 3 || size < 1) {
    throw ShapeError("local_response_norm of " + describe(x.data()) + " over " +
                     std::to_string(size) +
                     " channels: x is [N, C, ...] of three dimensions at "
                     "least, and size at least 1");
  }
  const LocalResponse options{size, alpha, beta, k};
  Tensor y = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  const Tensor scale = Tensor::empty(x.shape(), x.data().dtype(), x.data().device());
  local_response_norm_forward(x.data(), options, y, scale);
  return record<LocalResponseNode>(std::move(y), {&x}, options, scale);
}

}  // namespace lockstep
