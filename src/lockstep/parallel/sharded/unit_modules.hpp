#pragma once
#include <span>
#include <string>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep {

/// A module that is a unit, and its parameters, in runs of one dtype: all of them trained or all
/// frozen, and all whole or all slabs of tensor parallelism. Slabs may be of other sizes on ranks
/// that hold others, and these ranks cut runs of whole parameters alike.
struct UnitModule {
  std::string name;
  const nn::Module* module;
  std::vector<std::vector<nn::NamedParameter>> runs = {};
};

/// The units of a model, in order of registration; the first is the model itself, with the
/// parameters of no other unit: see FullyShardOptions::units. Units without parameters are left
/// out. Throws InputError for a pattern that fits no module below the model.
[[nodiscard]] std::vector<UnitModule> unit_modules(const nn::Module& model,
                                                   std::span<const std::string> patterns);

}  // namespace lockstep
