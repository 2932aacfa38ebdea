#pragma once
#include <memory>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// A module that keeps only its input for backward: backward recomputes it (Chen et al. 2016,
/// arXiv:1604.06174). Results and gradients have the bits that they have without, dropout included;
/// memory for a third more arithmetic, or less (`Again`). For modules whose result is a function of
/// input and parameters: not for BatchNorm, whose running statistics would be updated twice.
class Recomputed {
 public:
  /// The forward of backward. Only the graph of the recomputed result is used, so an operation
  /// whose values only the result depends on may skip them (linear_without_values).
  using Again = Variable (*)(Module& module, const Variable& x);
  static Variable forward_again(Module& module, const Variable& x) { return module(x); }

  /// The module, which this and graphs of it keep alive, must keep the parameters that it has now.
  explicit Recomputed(std::shared_ptr<Module> module, Again again = forward_again);
  [[nodiscard]] Variable operator()(const Variable& x);

 private:
  void list_inputs(const Variable& x);

  std::shared_ptr<Module> module_;
  Again again_;
  std::vector<Variable> parameters_;
  std::vector<Variable> inputs_;  // of the node: x, then the trained parameters; keeps its memory
};

}  // namespace lockstep::nn
