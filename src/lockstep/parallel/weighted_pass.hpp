#pragma once
#include <utility>

#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// While it lives, this thread is within backward(loss, weight) of a DistributedDataParallel or
/// FullyShardedDataParallel: the seed of passes includes the rank's weight.
class WeightedPass {
 public:
  WeightedPass() noexcept : before_(std::exchange(running(), true)) {}
  ~WeightedPass() { running() = before_; }
  WeightedPass(const WeightedPass&) = delete;
  WeightedPass& operator=(const WeightedPass&) = delete;

  [[nodiscard]] static bool is_running() noexcept { return running(); }

  /// The backward pass from `loss` times `weight`, and times `loss_scale` if that is defined; on a
  /// device the host does not wait for it. Notifies `observer`. Throws Error, naming `caller`,
  /// unless the loss has one element, and as Variable::backward does.
  static void run(const char* caller, const Variable& loss, double weight, const Tensor& loss_scale,
                  PassObserver& observer);

 private:
  [[nodiscard]] static bool& running() noexcept;
  bool before_;
};

}  // namespace lockstep
