#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <lockstep/optim/betas.hpp>
#include <lockstep/optim/option_names.hpp>

namespace lockstep::optim {

/// An optimizer's options for each of its parameter groups and, last, for parameters in no group.
template <class Options>
class GroupedOptions {
 public:
  explicit GroupedOptions(std::vector<Options> all) : all_(std::move(all)) {}

  [[nodiscard]] const Options& operator[](std::size_t group) const { return all_[group]; }
  [[nodiscard]] const Options& usual() const { return all_.back(); }
  [[nodiscard]] bool any(bool (*holds)(const Options&)) const {
    return std::ranges::any_of(all_, holds);
  }
  template <class F>
  void change_all(const F& f) {
    for (Options& options : all_) f(options);
  }
  /// visit(name, value) for each option of the group but lr and weight_decay, which the optimizer
  /// has; `visit` may change the double& that it is given. A flag is 0 or 1.
  template <class Visit>
  void visit(std::size_t group, const Visit& visit) {
    Options& options = all_[group];
#define LOCKSTEP_VISIT_OPTION(name) \
  if constexpr (requires { options.name; }) visit_one(visit, #name, options.name);
    LOCKSTEP_EACH_GROUP_OPTION(LOCKSTEP_VISIT_OPTION)
#undef LOCKSTEP_VISIT_OPTION
  }

 private:
  template <class Visit>
  static void visit_one(const Visit& visit, const char* name, double& value) {
    visit(name, value);
  }
  template <class Visit>
  static void visit_one(const Visit& visit, const char* name, bool& value) {
    double number = value ? 1.0 : 0.0;
    visit(name, number);
    value = number != 0.0;
  }
  template <class Visit>
  static void visit_one(const Visit& visit, const char* /*name*/, Betas& betas) {
    visit("beta1", betas[0]);
    visit("beta2", betas[1]);
  }

  std::vector<Options> all_;
};

}  // namespace lockstep::optim
