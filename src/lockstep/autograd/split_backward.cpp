#include <lockstep/autograd/split_backward.hpp>

#include <span>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// Takes all leaves but one, and drops their gradients.
class AllBut final : public GradSink {
 public:
  explicit AllBut(const Variable& leaf) : leaf_(leaf) {}
  [[nodiscard]] bool takes(const Variable& leaf) const override {
    if (leaf.record() == leaf_.record()) return false;
    for (const detail::GradHookEntry& hook : leaf.record()->grad_hooks) {
      if (!hook.observer || !hook.observer->awaits_pass()) continue;
      throw Error(
          "SplitBackward: the parameters are sharded, or their gradients are to be summed in this "
          "pass, which must be whole then. Take a schedule without backwards in two parts, or a "
          "no_sync() of DistributedDataParallel.");
    }
    return true;
  }
  [[nodiscard]] GradTarget target(const Variable& /*leaf*/) override { return {}; }

 private:
  const Variable& leaf_;
};

}  // namespace

struct SplitBackward::State {
  Variable input;
  std::vector<DeferredNode> deferred;
};

SplitBackward::SplitBackward(const Variable& root, const Tensor& gradient, double seed,
                             const Variable& input)
    : state_(std::make_unique<State>()) {
  state_->input = input;
  AllBut sink(state_->input);
  PassOptions pass{.roots = std::span(&root, 1), .seed = seed, .sink = &sink};
  if (gradient.defined()) pass.gradients = std::span(&gradient, 1);
  pass.deferred = &state_->deferred;
  BackwardPass(pass).run();
}

SplitBackward::~SplitBackward() = default;

void SplitBackward::run_rest() {
  BackwardPass({}).run_deferred(std::exchange(state_->deferred, {}), state_->input);
}

}  // namespace lockstep
