#include <lockstep/optim/parameter_group.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep::optim {
namespace {

void expect_setting_not_negative(const ParameterGroup& group, const char* what, double value) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw InputError(
      fmt::format("the {} of parameter group '{}' must be finite and not negative, not {}", what,
                  group.pattern, value));
}

}  // namespace

std::vector<std::size_t> group_of_each(const std::vector<nn::NamedParameter>& parameters,
                                       std::span<const ParameterGroup> groups) {
  for (const ParameterGroup& group : groups) {
    expect_setting_not_negative(group, "lr_factor", group.lr_factor);
    if (group.lr) expect_setting_not_negative(group, "lr", *group.lr);
    if (group.lr && group.lr_factor != 1.0) {
      throw InputError(fmt::format("parameter group '{}' has both an lr and an lr_factor: give one",
                                   group.pattern));
    }
    if (group.weight_decay) expect_setting_not_negative(group, "weight_decay", *group.weight_decay);
    nn::expect_some_fit(group.pattern, parameters);
  }
  std::vector<std::size_t> chosen;
  for (const auto& parameter : parameters) {
    const auto fits = [&](const ParameterGroup& g) {
      return nn::fits_pattern(g.pattern, parameter.name);
    };
    chosen.push_back(static_cast<std::size_t>(std::ranges::find_if(groups, fits) - groups.begin()));
  }
  return chosen;
}

}  // namespace lockstep::optim
