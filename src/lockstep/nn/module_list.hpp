#pragma once
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// Modules by number, "0", "1", ..., for a model whose forward runs them itself.
class ModuleList : public Module {
 public:
  ModuleList() = default;
  ModuleList(std::initializer_list<std::shared_ptr<Module>> modules) {
    for (const auto& module : modules) push_back(module);
  }
  void push_back(std::shared_ptr<Module> module) {
    register_module(std::to_string(size()), std::move(module));
  }
  [[nodiscard]] std::size_t size() const noexcept { return children().size(); }
  /// Throws Error if there is no such module.
  [[nodiscard]] Module& operator[](std::size_t i) const;
};

/// The same, by name.
class ModuleDict : public Module {
 public:
  using NamedModule = std::pair<std::string, std::shared_ptr<Module>>;

  ModuleDict() = default;
  ModuleDict(std::initializer_list<NamedModule> modules) {
    for (const auto& [name, module] : modules) insert(name, module);
  }
  void insert(std::string name, std::shared_ptr<Module> module) {
    register_module(std::move(name), std::move(module));
  }
  [[nodiscard]] std::size_t size() const noexcept { return children().size(); }
  [[nodiscard]] bool contains(const std::string& name) const noexcept;
  /// Throws Error if there is no such module.
  [[nodiscard]] Module& operator[](const std::string& name) const;
};

}  // namespace lockstep::nn
