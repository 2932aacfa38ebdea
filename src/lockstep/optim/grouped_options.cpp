#include <lockstep/optim/grouped_options.hpp>

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/any_key.hpp>

namespace lockstep::optim {
namespace {

using Given = std::vector<std::pair<std::string, std::vector<double>>>;

/// The options of a group, by deck key.
Given options_of(const ParameterGroup& group) {
  Given given;
  const auto add = [&](const char* key, const auto& option) {
    if (option) given.push_back({key, {static_cast<double>(*option)}});
  };
  add("lr", group.lr);
  add("weight_decay", group.weight_decay);
  add("momentum", group.momentum);
  add("dampening", group.dampening);
  add("nesterov", group.nesterov);
  if (group.betas) given.push_back({"betas", {(*group.betas)[0], (*group.betas)[1]}});
  add("eps", group.eps);
  add("amsgrad", group.amsgrad);
  add("alpha", group.alpha);
  add("centered", group.centered);
  add("lr_decay", group.lr_decay);
  add("initial_accumulator_value", group.initial_accumulator_value);
  add("rho", group.rho);
  add("momentum_decay", group.momentum_decay);
  add("decoupled_weight_decay", group.decoupled_weight_decay);
  add("lambd", group.lambd);
  add("t0", group.t0);
  add("trust_coefficient", group.trust_coefficient);
  given.insert(given.end(), group.others.begin(), group.others.end());
  return given;
}

/// Calls each(name, is_list, numbers) for every numeric option, and stores the numbers it leaves.
template <class Each>
class AsNumbers final : public lockstep::detail::AnyKey<AsNumbers<Each>> {
 public:
  explicit AsNumbers(Each each) : each_(std::move(each)) {}

  template <class T>
  void any_key(std::string_view name, T& field, const KeyInfo&) {
    if constexpr (std::is_same_v<T, std::vector<double>>) {
      each_(name, true, field);
    } else if constexpr (std::is_arithmetic_v<T>) {
      std::vector<double> number{static_cast<double>(field)};
      each_(name, false, number);
      field = static_cast<T>(number.front());
    }
  }

 private:
  std::size_t pick(std::string_view, const std::vector<std::string_view>&, std::size_t chosen,
                   std::string_view) override {
    return chosen;
  }

  Each each_;
};

/// "beta2" is the second element of "betas".
std::string element_name(std::string_view list, std::size_t i) {
  if (list.ends_with('s')) list.remove_suffix(1);
  return fmt::format("{}{}", list, i + 1);
}

}  // namespace

void visit_numbers(const DeclareKeys& declare,
                   const std::function<void(const char* name, double& value)>& visit) {
  AsNumbers numbers([&](std::string_view name, bool is_list, std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      visit((is_list ? element_name(name, i) : std::string(name)).c_str(), values[i]);
  });
  declare(numbers);
}

void take_options(const ParameterGroup& group, const char* optimizer, const DeclareKeys& declare) {
  Given given = options_of(group);
  AsNumbers numbers([&](std::string_view name, bool /*is_list*/, std::vector<double>& values) {
    for (auto option = given.begin(); option != given.end();) {
      if (option->first != name) {
        ++option;
        continue;
      }
      if (option->second.size() != values.size()) {
        throw InputError(fmt::format("parameter group '{}': {}'s {} has {} elements, not {}",
                                     group.pattern, optimizer, name, values.size(),
                                     option->second.size()));
      }
      values = option->second;
      option = given.erase(option);
    }
  });
  declare(numbers);
  if (given.empty()) return;
  throw InputError(fmt::format("parameter group '{}': {} has no option {}", group.pattern,
                               optimizer, given.front().first));
}

}  // namespace lockstep::optim
