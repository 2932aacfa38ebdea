#include <lockstep/nn/recompute.hpp>

#include <array>
#include <optional>
#include <span>
#include <utility>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/pooled_list.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {
namespace {

/// Writes the gradients of a pass to the targets of a node.
class Targets final : public GradSink {
 public:
  void add(const Variable& leaf, GradTarget target) {
    entries_.push_back({leaf.record(), std::move(target)});
  }

  GradTarget target(const Variable& leaf) override {
    for (Entry& entry : entries_) {
      if (entry.leaf != leaf.record()) continue;
      GradTarget result = entry.target;
      entry.target.accumulate = true;
      return result;
    }
    throw Error("a recomputed module depends on a leaf, " + describe(leaf.data()) +
                ", that is not one of its parameters");
  }

  /// Zeroes the targets that nothing was written to.
  void finish() const {
    for (const Entry& entry : entries_) {
      if (entry.target.wanted && !entry.target.accumulate) entry.target.tensor.zero();
    }
  }

 private:
  struct Entry {
    const detail::VariableRecord* leaf = nullptr;
    GradTarget target;
  };
  PooledList<Entry, 32> entries_;
};

class RecomputeNode : public PooledNode<RecomputeNode> {
 public:
  RecomputeNode(std::shared_ptr<Module> module, Recomputed::Again again, RandomTape tape)
      : module_(std::move(module)), again_(again), tape_(std::move(tape)) {}

  void backward(const Tensor& grad_output) override {
    const Variable x(input(0).data(), input(0).requires_grad());
    std::array<Variable, 1> y;
    {
      const GradModeGuard records(true);
      std::optional<Autocast> autocast;
      if (autocast_) autocast.emplace(product_precision());  // the node's
      const RandomTape::Replay replay(tape_);
      y[0] = again_(*module_, x);
    }
    Targets targets;
    targets.add(x, grad_target(0));
    for (int i = 1; i < input_count(); ++i) targets.add(input(i), grad_target(i));
    backward_within(y, std::span(&grad_output, 1), targets);
    targets.finish();
  }
  [[nodiscard]] const char* name() const noexcept override { return "recompute"; }

 private:
  std::shared_ptr<Module> module_;
  Recomputed::Again again_;
  RandomTape tape_;
  bool autocast_ = autocast_enabled();  ///< when it was recorded
};

}  // namespace

Recomputed::Recomputed(std::shared_ptr<Module> module, Again again)
    : module_(expect_given("Recomputed", "the module", std::move(module))),
      again_(again),
      parameters_(module_->parameters()) {}

void Recomputed::list_inputs(const Variable& x) {
  inputs_.clear();
  inputs_.push_back(x);
  for (const Variable& parameter : parameters_) {
    if (parameter.requires_grad()) inputs_.push_back(parameter);
  }
}

Variable Recomputed::operator()(const Variable& x) {
  if (!grad_enabled()) return (*module_)(x);
  RandomTape tape;
  Tensor y;
  {
    const NoGradGuard keeps_nothing;
    const RandomTape::Recording recording(tape);
    y = (*module_)(x).data();
  }
  list_inputs(x);
  Variable result = record<RecomputeNode>(std::move(y), std::span<const Variable>(inputs_), module_,
                                          again_, std::move(tape));
  inputs_.clear();
  return result;
}

}  // namespace lockstep::nn
