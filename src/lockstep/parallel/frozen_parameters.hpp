#pragma once
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep {

/// Throws Error, beginning with `who`, if the pass that runs gives a gradient to one of these
/// parameters, which were frozen when the wrapper `who` was constructed: it would not be summed.
void expect_unreached(const char* who, const std::vector<nn::NamedParameter>& frozen);

}  // namespace lockstep
