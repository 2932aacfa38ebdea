#pragma once
#include <functional>
#include <type_traits>
#include <utility>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/parallel/pipeline/microbatch.hpp>

namespace lockstep {

/// The mean loss, of one element, over the rows of a micro-batch: a function of the last stage's
/// output and the target's rows, and optionally of the micro-batch, for a loss of several tensors
/// of targets:
///   [&](const Variable& y, const Tensor&, const Microbatch& rows) {
///     return task.loss(y, batch.slice(rows.begin, rows.end));
///   }
class PipelineLoss {
 public:
  PipelineLoss() = default;
  template <class F>
  requires std::is_invocable_r_v<Variable, F&, const Variable&, const Tensor&, const Microbatch&>
  PipelineLoss(F function) : function_(std::move(function)) {}  // NOLINT: a loss is a function
  template <class F>
  requires std::is_invocable_r_v<Variable, F&, const Variable&, const Tensor&> PipelineLoss(
      F function)  // NOLINT: a loss is a function
      : function_([function = std::move(function)](const Variable& output, const Tensor& target,
                                                   const Microbatch&) mutable {
          return function(output, target);
        }) {}

  [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(function_); }
  [[nodiscard]] Variable operator()(const Variable& output, const Tensor& target,
                                    const Microbatch& rows) const {
    return function_(output, target, rows);
  }

 private:
  std::function<Variable(const Variable&, const Tensor&, const Microbatch&)> function_;
};

}  // namespace lockstep
