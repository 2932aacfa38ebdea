#pragma once
#include <cstdint>

namespace lockstep::nn {

/// Throws InputError, naming the layer and the argument, unless value >= 1.
void expect_positive(const char* layer, const char* argument, std::int64_t value);

}  // namespace lockstep::nn
