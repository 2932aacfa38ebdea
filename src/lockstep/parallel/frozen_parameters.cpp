#include <lockstep/parallel/frozen_parameters.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

namespace lockstep {

void expect_unreached(const char* who, const std::vector<nn::NamedParameter>& frozen) {
  for (const auto& [name, variable] : frozen) {
    if (!variable.awaits_gradient()) continue;
    throw Error(fmt::format(
        "{0}: parameter '{1}' is trained, but was frozen at construction, so its gradient is not "
        "summed over the ranks. Freeze it only after constructing {0}.",
        who, name));
  }
}

}  // namespace lockstep
