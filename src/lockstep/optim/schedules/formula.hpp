#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <string_view>

#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/schedule.hpp>

namespace lockstep::optim {

// Common parts of several kinds of schedules.

/// The unit of lengths, for a key's declaration.
inline constexpr std::string_view unit_key = "schedule.unit";

inline double number(std::int64_t k) noexcept { return static_cast<double>(k); }

/// From a at x = 0 to b at x = 1 along half a cosine.
inline double half_cosine(double a, double b, double x) noexcept {
  return b + (a - b) * (1.0 + std::cos(std::numbers::pi * x)) / 2.0;
}

/// As messages tell it: 0.3, not 0.300000.
[[nodiscard]] std::string text_of(double value);
/// Throws InputError.
[[noreturn]] void refuse_schedule(const std::string& message);
/// Throws InputError if `value` of the option `name` is less.
void expect_at_least(const char* name, std::int64_t value, std::int64_t least);

/// The keys of a cycle that moves the momentum.
template <class Options>
void declare_cycle_of_momentum(DeckTable& table, Options& options) {
  table.key("cycle_momentum", options.cycle_momentum,
            {.doc = "move the momentum (of sgd, lars and rmsprop; else the first beta) against the "
                    "rate"});
  table.key("base_momentum", options.base_momentum,
            {.doc = "momentum at the highest rate", .min = 0.01, .max = 0.9999});
  table.key("max_momentum", options.max_momentum,
            {.doc = "momentum at the lowest rate", .min = 0.01, .max = 0.9999});
}

}  // namespace lockstep::optim
