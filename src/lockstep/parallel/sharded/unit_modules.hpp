#pragma once
#include <span>
#include <string>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep {

/// A module that is a unit, and its parameters.
struct UnitModule {
  std::string name;
  const nn::Module* module;
  std::vector<nn::NamedParameter> parameters = {};
};

/// The units of a model, in order of registration; the first is the model itself, with the
/// parameters that no other has: see FullyShardOptions::units. Units without parameters are left
/// out. Throws InputError for a pattern that fits no module below the model.
[[nodiscard]] std::vector<UnitModule> unit_modules(const nn::Module& model,
                                                   std::span<const std::string> patterns);

/// A unit's parameters in runs of one dtype, all trained or all frozen.
[[nodiscard]] std::vector<std::vector<nn::NamedParameter>> shard_runs(
    const std::vector<nn::NamedParameter>& parameters);

}  // namespace lockstep
