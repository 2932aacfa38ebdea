#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/optim/betas.hpp>

namespace lockstep::optim {

/// Parameters by name, with the options that differ for them:
///   optim::AdamW(model.named_parameters(), {.lr = 1e-3},
///         {{.pattern = "*.bias", .weight_decay = 0.0}, {.pattern = "head.*", .lr = 1e-2}}) What a
///         group leaves out is the optimizer's; an option that the optimizer does not have is
///         refused. A parameter belongs to the first group whose pattern matches its name, and to
///         none if no pattern does. Groups change neither the order nor the names of the state in
///         checkpoints.
struct ParameterGroup {
  std::string pattern;     ///< a whole name, in which '*' matches any characters and '?' any one
  double lr_factor = 1.0;  ///< of the optimizer's learning rate, which a schedule may move
  std::optional<double> weight_decay = {};
  /// Its own rate, instead of lr_factor. Schedules start from it; set_lr multiplies it as the
  /// optimizer's.
  std::optional<double> lr = {};
  std::optional<double> momentum = {};
  std::optional<double> dampening = {};
  std::optional<bool> nesterov = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {};
  std::optional<bool> amsgrad = {};
  std::optional<double> alpha = {};
  std::optional<bool> centered = {};
  std::optional<double> lr_decay = {};
  std::optional<double> initial_accumulator_value = {};
  std::optional<double> rho = {};
  std::optional<double> momentum_decay = {};
  std::optional<bool> decoupled_weight_decay = {};
  std::optional<double> lambd = {};
  std::optional<double> t0 = {};
  std::optional<double> trust_coefficient = {};
  /// Further options of some optimizers, by their deck keys: {{"no_prox", {1}}}. A flag is 0 or 1,
  /// a list has all of its elements.
  std::vector<std::pair<std::string, std::vector<double>>> others = {};
};

/// For each parameter the index of its group, or groups.size() for none. Throws InputError for a
/// factor, rate or decay that is negative or not finite, for both a rate and a factor, and for a
/// pattern that matches no parameter, naming
/// the nearest names.
[[nodiscard]] std::vector<std::size_t> group_of_each(
    const std::vector<nn::NamedParameter>& parameters, std::span<const ParameterGroup> groups);

}  // namespace lockstep::optim
