#pragma once
#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

// Private to the optimizers' .cpp files.

namespace lockstep::optim {

/// Throws InputError, naming optimizer and option, unless 0 <= value < infinity.
inline void expect_not_negative(const char* optimizer, const char* option, double value) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw InputError(
      fmt::format("{}'s {} must be finite and not negative, not {}", optimizer, option, value));
}

/// Throws InputError, naming optimizer and option, unless 0 <= value < 1.
inline void expect_below_one(const char* optimizer, const char* option, double value) {
  if (value >= 0.0 && value < 1.0) return;
  throw InputError(
      fmt::format("{}'s {} must be at least 0 and below 1, not {}", optimizer, option, value));
}

}  // namespace lockstep::optim
