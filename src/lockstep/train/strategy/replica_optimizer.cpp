#include <lockstep/train/strategy/replica_optimizer.hpp>

#include <utility>

#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>

namespace lockstep::train {

ReplicaOptimizer::ReplicaOptimizer(const RunPlan& plan, ZeroRedundancyOptimizer::Parts parts) {
  const MemoryLabel label("optimizer state");
  const auto make = [&](std::vector<nn::NamedParameter> parameters) {
    return optim::make_optimizer(plan.optimizer, std::move(parameters));
  };
  if (plan.train.zero == 1 && !parts.ddps.empty()) {
    zero_.emplace(parts, make);
    return;
  }
  whole_ = make(std::move(parts.trained));
  whole_->take_placements(parts.state);
}

optim::Optimizer& ReplicaOptimizer::optimizer() const noexcept {
  return zero_ ? zero_->optimizer() : *whole_;
}

const std::vector<nn::NamedParameter>& ReplicaOptimizer::parameters() const noexcept {
  return zero_ ? zero_->parameters() : whole_->parameters();
}

void ReplicaOptimizer::before_update() {
  if (zero_) zero_->take_gradients();
}

void ReplicaOptimizer::after_update() {
  if (zero_) zero_->gather();
}

}  // namespace lockstep::train
