#include <lockstep/autograd/functional/linear_cross_entropy.hpp>

#include <lockstep/autograd/functional/linear_loss_in_chunks.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

class CrossEntropy {
 public:
  static constexpr std::int64_t stats_a_row = 2;
  static constexpr bool has_second_derivatives = true;

  CrossEntropy(std::int64_t classes, const LossOptions& options)
      : classes_(classes), options_(options) {}

  [[nodiscard]] const char* name() const noexcept { return "linear_cross_entropy"; }
  void expect_fit(const Tensor& x, const Tensor& weight, const Tensor& target) const {
    const Shape logits = linear_shape(x, weight, {});
    const Shape rows(std::span(logits.begin(), logits.end() - 1));
    if (target.shape() != rows || target.dtype() != DType::i64) {
      throw ShapeError("linear_cross_entropy of x " + describe(x) + " and weight " +
                       describe(weight) + " takes a target i64" + to_string(rows) + ", not " +
                       describe(target));
    }
    check_options(name(), Tensor::empty({0, classes_}, sum_dtype(x.dtype()), x.device()), options_);
  }
  [[nodiscard]] std::int64_t classes() const { return classes_; }
  [[nodiscard]] std::int64_t columns_of_a_rank() const { return classes_; }
  /// Smoothing gives each column a part.
  [[nodiscard]] bool takes_more_columns() const { return options_.label_smoothing == 0.0; }
  [[nodiscard]] const LossOptions& options() const { return options_; }
  void forward(const Tensor& logits, const Tensor& target, const Tensor& losses,
               const Tensor& stats) const {
    cross_entropy_forward(logits, target, options_, losses, stats);
  }
  void backward(const Tensor& grad_loss, const Tensor& divisor, const Tensor& logits,
                const Tensor& stats, const Tensor& target) const {
    cross_entropy_backward(grad_loss, divisor, logits, stats, target, options_, false, logits);
  }
  template <class Each>
  void reduce(const Tensor& /*stats*/, std::int64_t /*count*/, const Each& /*each*/) const {}
  [[nodiscard]] Variable of(const Variable& logits, const Tensor& target) const {
    return cross_entropy(logits, target, options_);
  }

 private:
  std::int64_t classes_;
  LossOptions options_;
};

}  // namespace

Variable linear_cross_entropy(const Variable& x, const Variable& weight, const Tensor& target,
                              const LossOptions& options, LossGradients when) {
  const Tensor& rows = weight.data();
  const std::int64_t classes = rows.dims() > 0 ? rows.size(0) : 0;  // refused later
  return detail::linear_loss_in_chunks(x, weight, as_indices(target), when,
                                       CrossEntropy(classes, options));
}

}  // namespace lockstep
