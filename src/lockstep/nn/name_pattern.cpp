#include <lockstep/nn/name_pattern.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/did_you_mean.hpp>

namespace lockstep::nn {

bool fits_pattern(std::string_view pattern, std::string_view name) {
  // The last '*' and the number of characters that it matches so far. On a mismatch it matches one
  // more; nothing before it is tried again.
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

void expect_some_fit(std::string_view pattern, const std::vector<NamedParameter>& parameters) {
  std::vector<std::string_view> names;
  for (const auto& parameter : parameters) {
    if (fits_pattern(pattern, parameter.name)) return;
    names.push_back(parameter.name);
  }
  throw InputError(fmt::format("the pattern '{}' matches no parameter of the model. {}", pattern,
                               did_you_mean(pattern, names)));
}

void freeze(const Module& model, std::span<const std::string> patterns) {
  const auto parameters = model.named_parameters();
  for (const std::string& pattern : patterns) {
    expect_some_fit(pattern, parameters);
    for (const auto& [name, variable] : parameters) {
      if (fits_pattern(pattern, name)) variable.set_requires_grad(false);
    }
  }
  if (!patterns.empty() && model.trained_parameters().empty())
    throw InputError("model.freeze leaves no parameter to train: drop a pattern");
}

}  // namespace lockstep::nn
