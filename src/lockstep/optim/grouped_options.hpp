#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include <lockstep/optim/parameter_group.hpp>

namespace lockstep {
class DeckTable;
}

namespace lockstep::optim {

using DeclareKeys = std::function<void(DeckTable&)>;

/// visit(name, value) for each number that is declared; `visit` may change it. A flag is 0 or 1, of
/// a list each element has a name: "beta1" and "beta2" of "betas".
void visit_numbers(const DeclareKeys& declare,
                   const std::function<void(const char* name, double& value)>& visit);

/// Sets the declared options to the values that `group` has for them. Throws InputError for one
/// that the optimizer does not have.
void take_options(const ParameterGroup& group, const char* optimizer, const DeclareKeys& declare);

/// An optimizer's options for each of its parameter groups and, last, for parameters in no group.
/// They are declared on a DeckTable, beside their struct.
template <class Options>
class GroupedOptions {
 public:
  /// `usual`, with each group's own values in place of its own; `validate` throws for values out of
  /// range. Throws InputError for an option of a group that `optimizer`, a name for messages, does
  /// not have.
  template <class Validate>
  GroupedOptions(const char* optimizer, const Options& usual,
                 const std::vector<ParameterGroup>& groups, const Validate& validate) {
    validate(usual);
    for (const ParameterGroup& group : groups) {
      Options& options = all_.emplace_back(usual);
      take_options(group, optimizer, declared(options));
      validate(options);
    }
    all_.push_back(usual);
  }
  GroupedOptions(const char* optimizer, const Options& usual,
                 const std::vector<ParameterGroup>& groups,
                 const Options& (*validate)(const Options&))
      : GroupedOptions(optimizer, usual, groups,
                       [&](const Options& options) { validate(options); }) {}

  [[nodiscard]] const Options& operator[](std::size_t group) const { return all_[group]; }
  [[nodiscard]] const Options& usual() const { return all_.back(); }
  [[nodiscard]] bool any(bool (*holds)(const Options&)) const {
    return std::ranges::any_of(all_, holds);
  }
  template <class F>
  void change_all(const F& f) {
    for (Options& options : all_) f(options);
  }
  /// visit(name, value) for each option of the group, by its deck key, but lr and weight_decay,
  /// which the optimizer has; `visit` may change the double& that it is given. A flag is 0 or 1,
  /// the elements of "betas" are "beta1" and "beta2".
  template <class Visit>
  void visit(std::size_t group, const Visit& visit) {
    visit_numbers(declared(all_[group]), [&](std::string_view name, double& value) {
      if (name != "lr" && name != "weight_decay") visit(name.data(), value);
    });
  }

 private:
  static DeclareKeys declared(Options& options) {
    return [&options](DeckTable& table) { declare(table, options); };
  }

  std::vector<Options> all_;
};

}  // namespace lockstep::optim
