#include <lockstep/optim/expect_hyper_parameter.hpp>

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/base/error.hpp>

namespace lockstep::optim {

void expect_hyper_parameter(bool holds, const char* optimizer, const char* demand,
                            std::initializer_list<double> values) {
  if (holds) return;
  throw InputError(fmt::format("{}'s {}, not {}", optimizer, demand, fmt::join(values, " and ")));
}

void expect_not_negative(const char* optimizer, const char* option, double value) {
  if (std::isfinite(value) && value >= 0.0) return;
  const auto demand = fmt::format("{} must be finite and not negative", option);
  expect_hyper_parameter(false, optimizer, demand.c_str(), {value});
}

void expect_below_one(const char* optimizer, const char* option, double value) {
  if (value >= 0.0 && value < 1.0) return;
  const auto demand = fmt::format("{} must be at least 0 and below 1", option);
  expect_hyper_parameter(false, optimizer, demand.c_str(), {value});
}

}  // namespace lockstep::optim
