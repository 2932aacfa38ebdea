#include <lockstep/parallel/tensor/vocabulary.hpp>

#include <algorithm>
#include <string>
#include <utility>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/autograd/operand.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/parallel/tensor/regions.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

/// Row statistics for backward.
struct Rows {
  Tensor target, losses, divisor, stats;  // stats: maximum and log sum first, [4, rows]
};

/// The loss of rows whose stats are this slab's; sums them over the ranks.
Tensor loss_of(Rows& rows, const ClassSlab& slab, const LossOptions& options, ProcessGroup& group) {
  const CallLabel label("vocabulary-parallel loss");
  const std::int64_t count = rows.target.numel();
  const Tensor maximum = Tensor::empty({count}, rows.stats.dtype(), rows.stats.device());
  group.all_reduce(rows.stats[0], maximum, ReduceOp::max).wait();
  cross_entropy_slab_rescale(maximum, rows.target, slab, options, rows.stats);
  group.all_reduce(rows.stats.slice(1, 4), ReduceOp::sum).wait();
  cross_entropy_slab_loss(rows.target, slab, options, rows.stats, rows.losses);
  if (options.reduction == Reduction::none) return rows.losses;
  Tensor loss = Tensor::empty({}, rows.losses.dtype(), rows.losses.device());
  rows.divisor = Tensor::empty_like(loss);
  reduce_loss(rows.losses, rows.target, options, loss, rows.divisor);
  return loss;
}

void expect_right(const char* operation, const Shape& logits, const Tensor& like,
                  const Tensor& target, const ClassSlab& slab, const LossOptions& options) {
  const Shape rows(std::span(logits.begin(), logits.end() - 1));
  if (target.shape() != rows || target.dtype() != DType::i64 || logits[-1] != slab.count) {
    throw ShapeError(std::string(operation) + " of logits " + to_string(logits) + " for " +
                     std::to_string(slab.count) + " of " + std::to_string(slab.classes) +
                     " classes takes a target i64" + to_string(rows) + ", not " + describe(target));
  }
  // The options are those of all classes.
  check_options(operation, Tensor::empty({0, slab.classes}, like.dtype(), like.device()), options);
}

class LogitsNode : public PooledNode<LogitsNode> {
 public:
  LogitsNode(Rows rows, const ClassSlab& slab, const LossOptions& options)
      : rows_(std::move(rows)), slab_(slab), options_(options) {}
  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.wanted) return;
    const Shape shape{rows_.target.numel(), slab_.count};
    const bool each = options_.reduction == Reduction::none;
    const Tensor grad = grad_output.to(rows_.stats.dtype());
    cross_entropy_slab_backward(each ? grad.reshape({rows_.target.numel()}) : grad, rows_.divisor,
                                input(0).data().reshape(shape), rows_.stats, rows_.target, slab_,
                                options_, x.accumulate, x.tensor.reshape(shape));
  }
  [[nodiscard]] const char* name() const noexcept override {
    return "vocabulary_parallel_cross_entropy";
  }

 private:
  Rows rows_;
  ClassSlab slab_;
  LossOptions options_;
};

/// Rows of x whose logits are in memory together. As in linear_cross_entropy.cpp: 1 MiB stays in
/// the host's cache; products of fewer than 64 rows are slow; a GPU needs more to be busy.
std::int64_t chunk_rows(std::int64_t width, DType dtype, Device device) {
  if (device.type != DeviceType::host) return 8192;
  const auto row = width * static_cast<std::int64_t>(size_of(dtype));
  return std::clamp<std::int64_t>((std::int64_t{1} << 20U) / std::max<std::int64_t>(row, 1), 64,
                                  256);
}

/// Calls f(begin, end, logits) for each chunk of x[rows, in].
template <class F>
void each_chunk(const Tensor& x, const Tensor& weight, DType dtype, const F& f) {
  const std::int64_t rows = x.size(0), height = chunk_rows(weight.size(0), dtype, x.device());
  const Tensor memory = Tensor::empty({std::min(height, rows), weight.size(0)}, dtype, x.device());
  for (std::int64_t begin = 0; begin < rows; begin += height) {
    const std::int64_t end = std::min(begin + height, rows);
    const Tensor logits = memory.slice(0, end - begin);
    linear_forward(x.slice(begin, end), weight, {}, logits);
    f(begin, end, logits);
  }
}

/// Columns [begin, end) of stats, as a copy.
Tensor stats_of(const Tensor& stats, std::int64_t begin, std::int64_t end) {
  Tensor part = Tensor::empty({stats.size(0), end - begin}, stats.dtype(), stats.device());
  for (std::int64_t i = 0; i < stats.size(0); ++i) part[i].copy_from(stats[i].slice(begin, end));
  return part;
}

class LinearNode : public PooledNode<LinearNode> {
 public:
  LinearNode(Tensor x, Tensor weight, Rows rows, const ClassSlab& slab, const LossOptions& options)
      : x_(std::move(x)),
        weight_(std::move(weight)),
        rows_(std::move(rows)),
        slab_(slab),
        options_(options) {}

  void backward(const Tensor& grad_output) override {
    const std::int64_t rows = rows_.target.numel();
    const GradTarget to_weight = grad_target(1), to_x = grad_target(0);
    const Tensor grad_x = to_x.wanted ? to_x.tensor.reshape({rows, x_.size(-1)}) : Tensor();
    bool adds = to_weight.accumulate;
    if (to_weight.wanted && rows == 0 && !adds) to_weight.tensor.zero();
    const bool each = options_.reduction == Reduction::none;
    const Tensor grad_rows = each ? grad_output.reshape({rows}) : grad_output;
    each_chunk(
        x_, weight_, grad_output.dtype(),
        [&](std::int64_t begin, std::int64_t end, const Tensor& logits) {
          cross_entropy_slab_backward(each ? grad_rows.slice(begin, end) : grad_rows, rows_.divisor,
                                      logits, stats_of(rows_.stats.slice(0, 2), begin, end),
                                      rows_.target.slice(begin, end), slab_, options_, false,
                                      logits);
          const Tensor grad_logits = product_operand(logits);
          if (to_x.wanted) {
            linear_backward_input(grad_logits, weight_, to_x.accumulate, grad_x.slice(begin, end));
          }
          if (to_weight.wanted) {
            linear_backward_weight(grad_logits, x_.slice(begin, end), std::exchange(adds, true),
                                   to_weight.tensor);
          }
        });
  }
  [[nodiscard]] const char* name() const noexcept override {
    return "vocabulary_parallel_linear_cross_entropy";
  }

 private:
  Tensor x_, weight_;
  Rows rows_;
  ClassSlab slab_;
  LossOptions options_;
};

}  // namespace

Variable vocabulary_parallel_embedding(const Tensor& index, const Variable& weight,
                                       const ClassSlab& slab, std::int64_t padding_idx,
                                       const GroupPtr& group) {
  const Operand table(weight);
  const Tensor rows = right_classes(index, slab);
  const Tensor local = Tensor::empty(index.shape(), DType::i64, index.device());
  Tensor mask = Tensor::empty(index.shape(), table.data().dtype(), index.device());
  rows_of_slab(rows, slab, local, mask);
  const std::int64_t padding = padding_idx - slab.first;
  const bool pads = padding_idx >= 0 && padding >= 0 && padding < slab.count;
  const Variable found = embedding(local, table, pads ? padding : -1);
  const Variable rows_here(mask.reshape(with_extent(found.shape(), found.shape().dims() - 1, 1)));
  return reduce_from_group(found * rows_here, group);
}

Variable vocabulary_parallel_cross_entropy(const Variable& given, const Tensor& given_target,
                                           const ClassSlab& slab, const GroupPtr& group,
                                           const LossOptions& options) {
  constexpr const char* operation = "vocabulary_parallel_cross_entropy";
  const auto apply = [&](const Variable& logits) {
    const Tensor& x = logits.data();
    if (x.dims() == 0) throw ShapeError(std::string(operation) + ": the logits are a scalar");
    expect_right(operation, x.shape(), x, given_target, slab, options);
    const Tensor target =
        right_targets(operation, given_target, slab.classes, options.ignore_index);
    const std::int64_t count = target.numel();
    const DType dtype = sum_dtype(x.dtype());
    Rows rows{target.reshape({count}),
              Tensor::empty(target.shape(), dtype, x.device()),
              {},
              Tensor::empty({4, count}, dtype, x.device())};
    cross_entropy_slab_forward(x.reshape({count, slab.count}), rows.target, slab, options,
                               rows.stats);
    const Tensor loss = loss_of(rows, slab, options, *group);
    return record<LogitsNode>(loss.to(loss_dtype(logits)), {&logits}, std::move(rows), slab,
                              options);
  };
  return natively(apply, given);
}

Variable vocabulary_parallel_linear_cross_entropy(const Variable& given_x,
                                                  const Variable& given_weight,
                                                  const Tensor& given_target, const ClassSlab& slab,
                                                  const GroupPtr& group,
                                                  const LossOptions& options) {
  constexpr const char* operation = "vocabulary_parallel_linear_cross_entropy";
  const Operand x(given_x), weight(given_weight);
  const PrecisionGuard precision(precision_of_product(x, weight));
  const Tensor &in = x.data(), &matrix = weight.data();
  expect_right(operation, linear_shape(in, matrix, {}), in, given_target, slab, options);
  const Tensor target = right_targets(operation, given_target, slab.classes, options.ignore_index);
  const std::int64_t count = target.numel();
  Rows rows{target.reshape({count}),
            Tensor::empty(target.shape(), in.dtype(), in.device()),
            {},
            Tensor::empty({4, count}, in.dtype(), in.device())};
  Tensor x_operand = product_operand(in.reshape({count, in.size(-1)}));
  Tensor matrix_operand = product_operand(matrix);
  each_chunk(x_operand, matrix_operand, in.dtype(),
             [&](std::int64_t begin, std::int64_t end, const Tensor& logits) {
               const Tensor stats = Tensor::empty({4, end - begin}, in.dtype(), in.device());
               cross_entropy_slab_forward(logits, rows.target.slice(begin, end), slab, options,
                                          stats);
               for (std::int64_t i = 0; i < 4; ++i)
                 rows.stats[i].slice(begin, end).copy_from(stats[i]);
             });
  Tensor loss = loss_of(rows, slab, options, *group);
  return record<LinearNode>(std::move(loss), {&x, &weight}, std::move(x_operand),
                            std::move(matrix_operand), std::move(rows), slab, options);
}

}  // namespace lockstep
