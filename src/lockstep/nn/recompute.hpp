#pragma once
#include <memory>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// A module of which nothing is kept for backward but its input: backward computes it a second time
/// (Chen et al. 2016, arXiv:1604.06174). Results and gradients have the bits that they have
/// without, dropout included; memory for a third more arithmetic, or less (`Again`). For modules
/// whose result is a function of input and parameters: not for BatchNorm, whose running statistics
/// would move twice.
class Recomputed {
 public:
  /// The forward of backward. Of its result the graph alone is used, so that an operation whose
  /// values only the result depends on may leave them out (linear_without_values).
  using Again = Variable (*)(Module& module, const Variable& x);
  static Variable forward_again(Module& module, const Variable& x) { return module(x); }

  /// The module must live as long, and as long as graphs of it. A parameter that is frozen or
  /// trained later than this is made needs another one.
  explicit Recomputed(std::shared_ptr<Module> module, Again again = forward_again);
  [[nodiscard]] Variable operator()(const Variable& x);

 private:
  std::shared_ptr<Module> module_;
  Again again_;
  std::vector<Variable> inputs_;  // of the node: x's place, then the parameters
};

}  // namespace lockstep::nn
