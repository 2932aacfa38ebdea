#include <lockstep/autograd/staged_backward.hpp>

#include <vector>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {

struct StagedBackward::State {
  std::vector<Variable> roots;
  BackwardPass pass;

  State(std::span<const Variable> given, GradSink& sink)
      : roots(given.begin(), given.end()),
        pass({.roots = roots, .retain_graph = true, .sink = &sink}) {
    pass.begin();
  }
};

StagedBackward::StagedBackward(std::span<const Variable> roots, GradSink& sink)
    : state_(std::make_unique<State>(roots, sink)) {}

StagedBackward::~StagedBackward() = default;

void StagedBackward::give(const Variable& root, const Tensor& gradient) {
  if (gradient.defined() && !detail::fits(gradient, root.data())) {
    throw ShapeError("a gradient " + describe(gradient) + " does not fit its variable " +
                     describe(root.data()));
  }
  state_->pass.give(root, gradient);
}

void StagedBackward::run() { state_->pass.advance(false); }
void StagedBackward::run_all() { state_->pass.advance(true); }
bool StagedBackward::waits() const noexcept { return state_->pass.has_rest(); }

}  // namespace lockstep
