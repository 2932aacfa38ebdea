#include <lockstep/optim/parameter_group.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/did_you_mean.hpp>

namespace lockstep::optim {
namespace {

void expect_setting_not_negative(const ParameterGroup& group, const char* what, double value) {
  if (std::isfinite(value) && value >= 0.0) return;
  throw InputError(
      fmt::format("the {} of parameter group '{}' must be finite and not negative, not {}", what,
                  group.pattern, value));
}

}  // namespace

bool fits_pattern(std::string_view pattern, std::string_view name) {
  // Where the last '*' stood, and how much of the name it has taken so far: on a mismatch it takes
  // one character more, and nothing before it is tried again.
  std::size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.substr(p).find_first_not_of('*') == std::string_view::npos;
}

void expect_some_fit(std::string_view pattern, const std::vector<nn::NamedParameter>& parameters) {
  std::vector<std::string_view> names;
  for (const auto& parameter : parameters) {
    if (fits_pattern(pattern, parameter.name)) return;
    names.push_back(parameter.name);
  }
  throw InputError(fmt::format("the pattern '{}' fits no parameter of the model. {}", pattern,
                               did_you_mean(pattern, names)));
}

std::vector<std::size_t> group_of_each(const std::vector<nn::NamedParameter>& parameters,
                                       std::span<const ParameterGroup> groups) {
  for (const ParameterGroup& group : groups) {
    expect_setting_not_negative(group, "lr_factor", group.lr_factor);
    if (group.weight_decay) expect_setting_not_negative(group, "weight_decay", *group.weight_decay);
    expect_some_fit(group.pattern, parameters);
  }
  std::vector<std::size_t> chosen;
  for (const auto& parameter : parameters) {
    const auto fits = [&](const ParameterGroup& g) {
      return fits_pattern(g.pattern, parameter.name);
    };
    chosen.push_back(static_cast<std::size_t>(std::ranges::find_if(groups, fits) - groups.begin()));
  }
  return chosen;
}

}  // namespace lockstep::optim
