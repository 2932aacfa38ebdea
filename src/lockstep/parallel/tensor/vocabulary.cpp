#include <lockstep/parallel/tensor/vocabulary.hpp>

#include <string>
#include <utility>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/linear_loss_in_chunks.hpp>
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

/// The losses, or their reduction.
Tensor loss_of(Rows& rows, const LossOptions& options) {
  if (options.reduction == Reduction::none) return rows.losses;
  Tensor loss = Tensor::empty({}, rows.losses.dtype(), rows.losses.device());
  rows.divisor = Tensor::empty_like(loss);
  reduce_loss(rows.losses, rows.target, options, loss, rows.divisor);
  return loss;
}

void expect_right(const char* operation, const Shape& logits, DType dtype, const Tensor& target,
                  const ClassSlab& slab, const LossOptions& options) {
  const Shape rows(std::span(logits.begin(), logits.end() - 1));
  if (target.shape() != rows || target.dtype() != DType::i64 || logits[-1] != slab.count) {
    throw ShapeError(std::string(operation) + " of logits " + to_string(logits) + " for " +
                     std::to_string(slab.count) + " of " + std::to_string(slab.classes) +
                     " classes takes a target i64" + to_string(rows) + ", not " + describe(target));
  }
  // The options are those of all classes.
  check_options(operation, Tensor::empty({0, slab.classes}, dtype, target.device()), options);
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

/// The loss of a chunk of rows.
class SlabLoss {
 public:
  static constexpr std::int64_t stats_a_row = 4;
  static constexpr bool has_second_derivatives = false;

  SlabLoss(const ClassSlab& slab, GroupPtr group, const LossOptions& options)
      : slab_(slab), group_(std::move(group)), options_(options) {}

  [[nodiscard]] const char* name() const noexcept {
    return "vocabulary_parallel_linear_cross_entropy";
  }
  void expect_fit(const Tensor& x, const Tensor& weight, const Tensor& target) const {
    expect_right(name(), linear_shape(x, weight, {}), sum_dtype(x.dtype()), target, slab_,
                 options_);
  }
  [[nodiscard]] std::int64_t classes() const { return slab_.classes; }
  [[nodiscard]] std::int64_t columns_of_a_rank() const {
    return (slab_.classes + group_->size() - 1) / group_->size();
  }
  /// A target of the next rank's classes would be in them.
  [[nodiscard]] bool takes_more_columns() const { return false; }
  [[nodiscard]] const LossOptions& options() const { return options_; }
  void forward(const Tensor& logits, const Tensor& target, const Tensor& /*losses*/,
               const Tensor& stats) const {
    cross_entropy_slab_forward(logits, target, slab_, options_, stats);
  }
  template <class Each>
  void reduce(const Tensor& stats, std::int64_t count, const Each& each) const {
    const CallLabel label("vocabulary-parallel loss");
    const Tensor maxima = Tensor::empty({count}, stats.dtype(), stats.device());
    const auto each_chunk = [&](const auto& f) {
      std::int64_t at = 0;
      each([&](const Tensor& target, const Tensor& losses, const Tensor& of_chunk) {
        const std::int64_t end = at + target.numel();
        f(target, losses, of_chunk, maxima.slice(at, end));
        at = end;
      });
    };
    using T = const Tensor&;
    each_chunk([&](T, T, T of_chunk, T maximum) { maximum.copy_from(of_chunk[0]); });
    group_->all_reduce(maxima, ReduceOp::max).wait();
    each_chunk([&](T target, T, T of_chunk, T maximum) {
      cross_entropy_slab_rescale(maximum, target, slab_, options_, of_chunk);
    });
    group_->all_reduce(stats, ReduceOp::sum).wait();  // the maxima, too: one tensor
    each_chunk([&](T target, T losses, T of_chunk, T maximum) {
      of_chunk[0].copy_from(maximum);
      cross_entropy_slab_loss(target, slab_, options_, of_chunk, losses);
    });
  }
  void backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& logits,
                const Tensor& stats, const Tensor& target) const {
    cross_entropy_slab_backward(grad_loss, divisor, logits, stats, target, slab_, options_, false,
                                logits);
  }

 private:
  ClassSlab slab_;
  GroupPtr group_;
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
    expect_right(operation, x.shape(), x.dtype(), given_target, slab, options);
    const Tensor target =
        right_targets(operation, given_target, slab.classes, options.ignore_index);
    const std::int64_t count = target.numel();
    const DType dtype = sum_dtype(x.dtype());
    Rows rows{target.reshape({count}),
              Tensor::empty(target.shape(), dtype, x.device()),
              {},
              Tensor::empty({4, count}, dtype, x.device())};
    const SlabLoss of_slab(slab, group, options);
    of_slab.forward(x.reshape({count, slab.count}), rows.target, rows.losses, rows.stats);
    of_slab.reduce(rows.stats, count,
                   [&](const auto& f) { f(rows.target, rows.losses, rows.stats); });
    const Tensor loss = loss_of(rows, options);
    return record<LogitsNode>(loss.to(loss_dtype(logits)), {&logits}, std::move(rows), slab,
                              options);
  };
  return natively(apply, given);
}

Variable vocabulary_parallel_linear_cross_entropy(const Variable& x, const Variable& weight,
                                                  const Tensor& target, const ClassSlab& slab,
                                                  const GroupPtr& group, const LossOptions& options,
                                                  LossGradients when) {
  return detail::linear_loss_in_chunks(x, weight, target, when, SlabLoss(slab, group, options));
}

}  // namespace lockstep
