#include <lockstep/nn/module_list.hpp>

#include <algorithm>

#include <lockstep/base/error.hpp>

namespace lockstep::nn {
Module& ModuleList::operator[](std::size_t i) const {
  if (i >= size()) {
    throw Error("ModuleList has " + std::to_string(size()) + " modules, and no index " +
                std::to_string(i));
  }
  return *children()[i].second;
}

bool ModuleDict::contains(const std::string& name) const noexcept {
  return std::ranges::any_of(children(), [&](const auto& child) { return child.first == name; });
}

Module& ModuleDict::operator[](const std::string& name) const {
  for (const auto& [known, module] : children()) {
    if (known == name) return *module;
  }
  throw Error("ModuleDict has no module '" + name + "'");
}

}  // namespace lockstep::nn
