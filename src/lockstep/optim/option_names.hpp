#pragma once

// For optimizers: what a parameter group can have beside lr and weight_decay, in
// ParameterGroup and, by these names, in checkpoints (Optimizer::param_groups).

#define LOCKSTEP_EACH_GROUP_OPTION(visit)                                                      \
  visit(momentum) visit(dampening) visit(nesterov) visit(betas) visit(eps) visit(amsgrad)      \
      visit(alpha) visit(centered) visit(lr_decay) visit(initial_accumulator_value) visit(rho) \
          visit(momentum_decay) visit(decoupled_weight_decay) visit(lambd) visit(t0)           \
              visit(trust_coefficient)
