#pragma once
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>
#include <lockstep/train/run/run_plan.hpp>

namespace lockstep::train {

/// The optimizer of parameters that several ranks hold: the same on each of them, or, with
/// train.zero = 1, shared out over them (ZeroRedundancyOptimizer).
class ReplicaOptimizer {
 public:
  /// Without `parts.ddps` there are no copies, and nothing is shared out. Collective if it is.
  ReplicaOptimizer(const RunPlan& plan, ZeroRedundancyOptimizer::Parts parts);

  /// Of all parameters, or of this rank's share. Local, as the next two.
  [[nodiscard]] optim::Optimizer& optimizer() const noexcept;
  /// The whole trained parameters, whose gradients are clipped.
  [[nodiscard]] const std::vector<nn::NamedParameter>& parameters() const noexcept;
  /// Strategy::before_update() and after_update(), the latter collective if it is shared out.
  void before_update();
  void after_update();

 private:
  std::optional<ZeroRedundancyOptimizer> zero_;
  std::unique_ptr<optim::Optimizer> whole_;  ///< if it is not shared out
};

}  // namespace lockstep::train
