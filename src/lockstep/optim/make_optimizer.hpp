#pragma once
#include <memory>
#include <vector>

#include <lockstep/optim/optimizer.hpp>
#include <lockstep/optim/optimizer_options.hpp>

namespace lockstep::optim {

/// The optimizer of `options.kind` over `parameters` (model.named_parameters()).
/// Throws InputError if the options do not fit together or to the parameters.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                                        std::vector<nn::NamedParameter> parameters);

/// Between backward and step.
struct Clipping {
  double norm = -1.0;   ///< of the gradients; -1: not asked for
  double factor = 1.0;  ///< for Optimizer::step, which clips the norm
};

/// Clips the gradients' values as `options` say, and tells what clips their norm.
[[nodiscard]] Clipping clip_gradients(const OptimizerOptions& options,
                                      const std::vector<nn::NamedParameter>& parameters);

}  // namespace lockstep::optim
