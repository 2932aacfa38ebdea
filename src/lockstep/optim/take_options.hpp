#pragma once
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/grouped_options.hpp>
#include <lockstep/optim/option_names.hpp>
#include <lockstep/optim/parameter_group.hpp>

// Private to the optimizers' .cpp files.

namespace lockstep::optim {

/// `options` with those that `group` gives. Throws InputError for one that the optimizer does not
/// have.
template <class Options>
[[nodiscard]] Options with_options_of(const ParameterGroup& group, Options options,
                                      const char* optimizer) {
  const auto refuse = [&](const char* option) {
    throw InputError(
        fmt::format("parameter group '{}': {} has no option {}", group.pattern, optimizer, option));
  };
#define LOCKSTEP_TAKE_OPTION(name)              \
  if (group.name) {                             \
    if constexpr (requires { options.name; }) { \
      options.name = *group.name;               \
    } else {                                    \
      refuse(#name);                            \
    }                                           \
  }
  LOCKSTEP_TAKE_OPTION(lr)
  LOCKSTEP_TAKE_OPTION(weight_decay)
  LOCKSTEP_EACH_GROUP_OPTION(LOCKSTEP_TAKE_OPTION)
#undef LOCKSTEP_TAKE_OPTION
  return options;
}

/// The options of every group; `validate` throws for one that is out of range.
template <class Options, class Validate>
[[nodiscard]] GroupedOptions<Options> grouped_and(const Validate& validate, const char* optimizer,
                                                  const Options& usual,
                                                  const std::vector<ParameterGroup>& groups) {
  validate(usual);
  std::vector<Options> all;
  for (const ParameterGroup& group : groups) {
    all.push_back(with_options_of(group, usual, optimizer));
    validate(all.back());
  }
  all.push_back(usual);
  return GroupedOptions<Options>(std::move(all));
}
template <class Options>
[[nodiscard]] GroupedOptions<Options> grouped(
    const char* optimizer, const Options& usual, const std::vector<ParameterGroup>& groups,
    std::type_identity_t<const Options& (*)(const Options&)> validate) {
  return grouped_and(validate, optimizer, usual, groups);
}

}  // namespace lockstep::optim
