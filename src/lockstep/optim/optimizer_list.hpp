#pragma once
#include <lockstep/optim/optimizer_kind.hpp>

// Private to the optimizers' .cpp files.

/// Lockstep's own optimizers in the order of the reference. Each NAME has a function add_NAME in
/// its own source. The first is the default.
#define LOCKSTEP_EACH_OPTIMIZER(visit)                                                      \
  visit(sgd) visit(adam) visit(adamw) visit(lars) visit(lamb) visit(rmsprop) visit(adagrad) \
      visit(adadelta) visit(adamax) visit(nadam) visit(radam) visit(asgd) visit(lion) visit(adan)

namespace lockstep::optim {

#define LOCKSTEP_DECLARE_ADD(name) void add_##name(OptimizerKinds& kinds);
LOCKSTEP_EACH_OPTIMIZER(LOCKSTEP_DECLARE_ADD)
#undef LOCKSTEP_DECLARE_ADD

}  // namespace lockstep::optim
