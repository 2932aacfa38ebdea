#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// True if `name` matches `pattern`, a whole name in which '*' matches any characters and '?' any
/// one.
[[nodiscard]] bool fits_pattern(std::string_view pattern, std::string_view name);

/// Throws InputError, naming the nearest names, if `pattern` fits no parameter.
void expect_some_fit(std::string_view pattern, const std::vector<NamedParameter>& parameters);

/// Freezes the parameters whose names match a pattern: they get no gradients, and optimizers skip
/// them. Buffers, as BatchNorm's running statistics, go on. Throws InputError for a pattern that
/// fits none, and if nothing would be left to train.
void freeze(const Module& model, std::span<const std::string> patterns);

}  // namespace lockstep::nn
