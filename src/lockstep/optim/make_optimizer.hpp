#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/optim/optimizer.hpp>
#include <lockstep/optim/optimizer_options.hpp>

namespace lockstep::optim {

/// The optimizer of `options.kind` over `parameters` (model.named_parameters()).
/// Throws InputError if the options do not fit together or to the parameters.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                                        std::vector<nn::NamedParameter> parameters);

/// `options` with those patterns of names alone, of groups and of LARS and LAMB, for which `wanted`
/// is true. Local.
[[nodiscard]] OptimizerOptions with_patterns(
    const OptimizerOptions& options, const std::function<bool(const std::string& pattern)>& wanted);

/// `options` for an optimizer of `part`, some of the parameters of `whole`: with_patterns that fit
/// one of them. Throws InputError for a pattern that fits no parameter of `whole`. Local.
[[nodiscard]] OptimizerOptions options_of_part(const OptimizerOptions& options,
                                               const std::vector<nn::NamedParameter>& whole,
                                               const std::vector<nn::NamedParameter>& part);

/// Call between backward and step: f64 [1] on the parameters' device, or undefined if the norm is
/// not clipped.
struct Clipping {
  Tensor norm;    ///< of the gradients
  Tensor factor;  ///< for Optimizer::step, which clips the norm
};

/// Clips the gradients' values as `options` say, and returns the factor that clips their norm. The
/// host does not wait for a device.
[[nodiscard]] Clipping clip_gradients(const OptimizerOptions& options,
                                      const std::vector<nn::NamedParameter>& parameters);
/// The same for a model of which this rank holds parts: `take_norm` writes the norm of the whole
/// gradient into its argument.
[[nodiscard]] Clipping clip_gradients(const OptimizerOptions& options,
                                      const std::vector<nn::NamedParameter>& parameters,
                                      const std::function<void(const Tensor& norm)>& take_norm);

}  // namespace lockstep::optim
