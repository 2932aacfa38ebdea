#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/linear_cross_entropy.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

// A loss of logits linear(x, weight) that are never all in memory: linear_cross_entropy, and
// vocabulary_parallel_linear_cross_entropy, where each rank has some of the columns. The loss is a
// value with
//   name()              of the operation, for messages: a static string
//   expect_fit(x, weight, target)      throws unless the products' operands fit target and options
//   options()
//   classes()           over all ranks
//   columns_of_a_rank() by which all ranks choose the same chunks
//   takes_more_columns()               whether logits may have columns of -infinity behind the
//                       classes', which change neither losses nor gradients
//   stats_a_row         numbers a row that forward() leaves for backward()
//   forward(logits, target, losses, stats)      of a chunk of rows: losses [rows] and stats
//                       [stats_a_row, rows], both of these columns alone
//   reduce(stats, count, each)         makes them those of all columns: each(f) calls f(target,
//                       losses, stats) for each chunk of these `count` rows, whose stats are
//                       `stats`
//   backward(grad_loss, divisor, logits, stats, target)     the logits become their gradient, as
//                       cross_entropy_backward's
//   has_second_derivatives, and then of(logits, target): the reduced loss as operations
//
// Logits are computed for a chunk of rows at a time and replaced by their gradient in place: in
// forward, or in backward, which computes the chunk's logits again and needs each row's maximum and
// log-sum.

namespace lockstep::detail {

/// The type of the logits of products with such operands: f32 for 16 bits, as a chunk stays in a
/// core's cache; but a GPU writes it to memory, and its logits are of 16 bits, as PyTorch's are.
inline DType logits_dtype(const Tensor& operand) {
  return math::device_math(operand.device()) ? operand.dtype() : sum_dtype(operand.dtype());
}

/// The columns of the logits: with some of no class where a GPU multiplies 16 bits. There a product
/// is fast if rows begin at multiples of 16 bytes.
template <class Loss>
std::int64_t logits_width(std::int64_t classes, const Tensor& operand, const Loss& loss) {
  constexpr std::int64_t multiple = 8;
  const bool widens =
      math::device_math(operand.device()) && is_half(operand.dtype()) && loss.takes_more_columns();
  return widens ? (classes + multiple - 1) / multiple * multiple : classes;
}

/// The rows of x[rows, in] and their targets in chunks. x and the weight are operands of the
/// products.
class LogitsChunks {
 public:
  template <class Loss>
  LogitsChunks(const Tensor& x, const Tensor& weight, const Tensor& target, const Loss& loss)
      : x_(x.reshape({target.numel(), x.size(-1)})),
        target_(target.reshape({target.numel()})),
        weight_(weight),
        stats_a_row_(Loss::stats_a_row),
        height_(height(loss.columns_of_a_rank(), logits_dtype(x), x.device())),
        logits_(Tensor::empty(
            {std::min(height_, target.numel()), logits_width(weight.size(0), x, loss)},
            logits_dtype(x), x.device())) {}

  struct Chunk {
    Tensor x, target, stats, logits;
  };

  /// Calls f(begin, end, chunk) for every chunk, with its logits computed; `stats`
  /// [stats_a_row * rows] belongs to the chunks' rows.
  template <class F>
  void each(const Tensor& stats, const F& f) const {
    each_without_logits(stats, [&](std::int64_t begin, std::int64_t end, const Chunk& chunk) {
      linear_forward(chunk.x, weight_, {}, chunk.logits);
      mask_columns(chunk.logits, weight_.size(0));
      f(begin, end, chunk);
    });
  }
  template <class F>
  void each_without_logits(const Tensor& stats, const F& f) const {
    for (std::int64_t begin = 0; begin < x_.size(0); begin += height_) {
      const std::int64_t end = std::min(begin + height_, x_.size(0)), rows = end - begin;
      const Chunk chunk{
          x_.slice(begin, end), target_.slice(begin, end),
          stats.slice(stats_a_row_ * begin, stats_a_row_ * end).reshape({stats_a_row_, rows}),
          logits_.slice(0, rows)};
      f(begin, end, chunk);
    }
  }

 private:
  /// On the host 1 MiB of logits stays in cache until it is used, and products of fewer than 64
  /// rows are slow. A GPU needs more rows to be busy.
  static std::int64_t height(std::int64_t width, DType dtype, Device device) {
    if (math::device_math(device)) return 8192;
    const auto row = width * static_cast<std::int64_t>(size_of(dtype));
    return std::clamp<std::int64_t>((std::int64_t{1} << 20U) / std::max<std::int64_t>(row, 1), 64,
                                    256);
  }

  Tensor x_, target_, weight_;
  std::int64_t stats_a_row_, height_;
  Tensor logits_;
};

/// Where the products of chunks' logits go: gradients of x, as rows, and of the weight, both or
/// one of them.
struct ProductGradients {
  Tensor x, weight;
  bool accumulate_x = false, accumulate_weight = false;

  /// The chunk's logits have become their gradient.
  void add(std::int64_t begin, std::int64_t end, const LogitsChunks::Chunk& chunk,
           const Tensor& weight_operand) {
    const Tensor grad_logits = chunk.logits.to(chunk.x.dtype());
    if (x.defined()) {
      linear_backward_input(grad_logits, weight_operand, accumulate_x, x.slice(begin, end));
    }
    if (weight.defined()) {
      linear_backward_weight(grad_logits, chunk.x, std::exchange(accumulate_weight, true), weight);
    }
  }
};

/// The common part of such a loss's nodes: name and second derivatives.
template <class NodeType, class Loss>
class LinearLossNode : public PooledNode<NodeType> {
 public:
  [[nodiscard]] const char* name() const noexcept override { return loss_.name(); }

 protected:
  LinearLossNode(Tensor target, Loss loss, Tensor divisor)
      : target_(std::move(target)), loss_(std::move(loss)), divisor_(std::move(divisor)) {}

  void differentiate(Differentiation& d) override {
    if constexpr (Loss::has_second_derivatives) {
      d.give_as([&](std::span<const Variable> inputs) {
        return rounded_once(inputs[0], inputs[1], [&](const Variable& x, const Variable& w) {
          const std::int64_t rows = target_.numel();
          const Variable logits = linear(reshape(x, {rows, w.shape()[1]}), w, {});
          const Variable y = loss_.of(logits, target_.reshape({rows}));
          return loss_.options().reduction == Reduction::none ? reshape(y, target_.shape()) : y;
        });
      });
    } else {
      Node::differentiate(d);
    }
  }

  [[nodiscard]] const Tensor& target() const { return target_; }
  [[nodiscard]] const Loss& loss() const { return loss_; }
  [[nodiscard]] const Tensor& divisor() const { return divisor_; }

 private:
  Tensor target_;
  Loss loss_;
  Tensor divisor_;
};

/// With gradients in backward.
template <class Loss>
class ChunkedLossNode : public LinearLossNode<ChunkedLossNode<Loss>, Loss> {
  using Base = LinearLossNode<ChunkedLossNode, Loss>;

 public:
  /// x and the weight as multiplied, after any rounding.
  ChunkedLossNode(Tensor x, Tensor weight, Tensor target, Loss loss, Tensor divisor, Tensor stats)
      : Base(std::move(target), std::move(loss), std::move(divisor)),
        x_(std::move(x)),
        weight_(std::move(weight)),
        stats_(std::move(stats)) {}

  void backward(const Tensor& grad_output) override {
    const std::int64_t rows = this->target().numel();
    const bool is_one_variable = this->input(0).record() == this->input(1).record();
    const GradTarget to_weight = this->grad_target(1);
    GradTarget to_x;
    if (!is_one_variable) {
      to_x = this->grad_target(0);
    } else if (to_weight.wanted) {  // apart, until the weight's is written
      to_x = {.wanted = true, .accumulate = false, .tensor = Tensor::empty_like(to_weight.tensor)};
    }
    ProductGradients to{.accumulate_x = to_x.accumulate, .accumulate_weight = to_weight.accumulate};
    if (to_x.wanted) to.x = to_x.tensor.reshape({rows, x_.size(-1)});
    if (to_weight.wanted && rows == 0 && !to_weight.accumulate) to_weight.tensor.zero();
    // All chunks add to the gradient of the weight: one of 16 bits is rounded once, at the end.
    const bool rounds = to_weight.wanted && rows > 0 && is_half(to_weight.tensor.dtype());
    to.weight = !rounds                ? to_weight.tensor
                : to_weight.accumulate ? to_weight.tensor.to(DType::f32)
                                       : Tensor::empty(weight_.shape(), DType::f32, x_.device());
    const bool each_row = this->loss().options().reduction == Reduction::none;
    const Tensor grad = grad_output.to(stats_.dtype());
    const Tensor grad_rows = each_row ? grad.reshape({rows}) : grad;
    LogitsChunks(x_, weight_, this->target(), this->loss())
        .each(stats_, [&](std::int64_t begin, std::int64_t end, const LogitsChunks::Chunk& chunk) {
          const Tensor here = each_row ? grad_rows.slice(begin, end) : grad_rows;
          this->loss().backward(here, this->divisor(), chunk.logits, chunk.stats, chunk.target);
          to.add(begin, end, chunk, weight_);
        });
    if (rounds) to_weight.tensor.copy_from(to.weight.to(to_weight.tensor.dtype()));
    if (is_one_variable) this->pass_grad(0, to_x.tensor);
  }

 private:
  Tensor x_, weight_, stats_;
};

/// With gradients of the sum of losses from forward.
template <class Loss>
class ScaledLossNode : public LinearLossNode<ScaledLossNode<Loss>, Loss> {
  using Base = LinearLossNode<ScaledLossNode, Loss>;

 public:
  static constexpr std::uint32_t saved_inputs = 0;

  ScaledLossNode(ProductGradients of_sum, Tensor target, Loss loss, Tensor divisor)
      : Base(std::move(target), std::move(loss), std::move(divisor)), of_sum_(std::move(of_sum)) {}

  void backward(const Tensor& grad_output) override {
    const Tensor grad = grad_output.to(this->divisor().dtype());
    for (const int i : {1, 0}) {
      const GradTarget to = this->grad_target(i);
      if (!to.wanted) continue;
      const Tensor& of_sum = i == 0 ? of_sum_.x : of_sum_.weight;
      scale_loss_gradient(of_sum, grad, this->divisor(), to.accumulate, to.tensor);
    }
  }

 private:
  ProductGradients of_sum_;
};

/// x and the weight have one dtype, or are Autocast's operands; losses and statistics of 16 bits
/// are f32.
template <class Loss>
Variable chunked_loss_of(const Variable& x, const Variable& weight, const Tensor& given,
                         LossGradients when, Loss loss) {
  const LossOptions& options = loss.options();
  const Tensor &in = x.data(), &matrix = weight.data();
  Tensor in_operand = product_operand(in), matrix_operand = product_operand(matrix);
  loss.expect_fit(in_operand, matrix_operand, given);
  const Tensor target = right_targets(loss.name(), given, loss.classes(), options.ignore_index);
  const DType sums = sum_dtype(in.dtype());
  const std::int64_t rows = target.numel();
  Tensor losses = Tensor::empty(target.shape(), sums, in.device());
  Tensor stats = Tensor::empty({Loss::stats_a_row * rows}, sums, in.device());
  const Tensor flat = losses.reshape({rows});
  const bool in_forward = when == LossGradients::in_forward && grad_enabled() &&
                          (x.requires_grad() || weight.requires_grad()) &&
                          options.reduction != Reduction::none && in_operand.dtype() != DType::f16;
  ProductGradients of_sum;
  Tensor one;
  if (in_forward) {
    one = Tensor::full({}, 1, sums, in.device());
    if (x.requires_grad()) of_sum.x = Tensor::empty({rows, in.size(-1)}, sums, in.device());
    if (weight.requires_grad()) {
      of_sum.weight = rows == 0 ? Tensor::zeros(matrix.shape(), sums, in.device())
                                : Tensor::empty(matrix.shape(), sums, in.device());
    }
  }
  const LogitsChunks chunks(in_operand, matrix_operand, target, loss);
  chunks.each(stats, [&](std::int64_t begin, std::int64_t end, const LogitsChunks::Chunk& chunk) {
    const Tensor its_losses = flat.slice(begin, end);
    loss.forward(chunk.logits, chunk.target, its_losses, chunk.stats);
    if (!in_forward) return;
    loss.reduce(chunk.stats, end - begin,
                [&](const auto& f) { f(chunk.target, its_losses, chunk.stats); });
    loss.backward(one, one, chunk.logits, chunk.stats, chunk.target);
    of_sum.add(begin, end, chunk, matrix_operand);
  });
  if (!in_forward) {
    loss.reduce(stats, rows, [&](const auto& f) {
      chunks.each_without_logits(
          stats, [&](std::int64_t begin, std::int64_t end, const LogitsChunks::Chunk& chunk) {
            f(chunk.target, flat.slice(begin, end), chunk.stats);
          });
    });
  }
  count_flops(2 * rows * matrix.numel());
  Tensor y = losses, divisor;
  if (options.reduction != Reduction::none) {
    y = Tensor::empty({}, sums, in.device());
    divisor = Tensor::empty({}, sums, in.device());
    reduce_loss(flat, target.reshape({rows}), options, y, divisor);
  }
  y = y.to(loss_dtype(x));
  if (in_forward) {
    return record<ScaledLossNode<Loss>>(std::move(y), {&x, &weight}, std::move(of_sum), target,
                                        std::move(loss), std::move(divisor));
  }
  return record<ChunkedLossNode<Loss>>(std::move(y), {&x, &weight}, std::move(in_operand),
                                       std::move(matrix_operand), target, std::move(loss),
                                       std::move(divisor), std::move(stats));
}

/// `loss` of linear(x, weight) for target i64[...]; see linear_cross_entropy. As in linear, only
/// operands of different dtypes are copied.
template <class Loss>
Variable linear_loss_in_chunks(const Variable& x, const Variable& weight, const Tensor& target,
                               LossGradients when, Loss loss) {
  if (x.data().dtype() == weight.data().dtype() || are_autocast_operands(x, weight))
    return chunked_loss_of(x, weight, target, when, std::move(loss));
  return chunked_loss_of<Loss>(Operand(x), Operand(weight), target, when, std::move(loss));
}

}  // namespace lockstep::detail
