#include <lockstep/autograd/staged_backward.hpp>

#include <vector>

#include <lockstep/autograd/engine.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {

struct StagedBackward::State {
  std::vector<Variable> roots;
  BackwardPass pass;
  Engine engine;

  void advance(bool all) {
    try {
      engine.advance(all);
    } catch (...) {
      engine.end();
      throw;
    }
  }
};

StagedBackward::StagedBackward(std::span<const Variable> roots, GradSink& sink)
    : state_(std::make_unique<State>()) {
  state_->roots.assign(roots.begin(), roots.end());
  state_->pass = {.roots = state_->roots, .retain_graph = true, .sink = &sink};
  try {
    state_->engine.begin(state_->pass);
  } catch (...) {
    state_->engine.end();
    throw;
  }
}

StagedBackward::~StagedBackward() { state_->engine.end(); }

void StagedBackward::give(const Variable& root, const Tensor& gradient) {
  if (gradient.defined() && !detail::fits(gradient, root.data())) {
    throw ShapeError("a gradient " + describe(gradient) + " does not fit its variable " +
                     describe(root.data()));
  }
  state_->engine.give(root, gradient);
}

void StagedBackward::run() { state_->advance(false); }
void StagedBackward::run_all() { state_->advance(true); }
bool StagedBackward::waits() const noexcept { return state_->engine.has_rest(); }

}  // namespace lockstep
