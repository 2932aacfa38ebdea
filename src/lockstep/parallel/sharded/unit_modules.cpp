#include <lockstep/parallel/sharded/unit_modules.hpp>

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep {
namespace {

/// Children are called "0", "1", ...
bool is_list(const nn::Module& module) {
  const auto& children = module.children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (children[i].first != std::to_string(i)) return false;
  }
  return !children.empty();
}

class Search {
 public:
  explicit Search(std::span<const std::string> patterns)
      : patterns_(patterns), fits_(patterns.size()) {}

  void visit(const std::string& name, const nn::Module& module) {
    const bool all = patterns_.empty() && is_list(module);
    for (const auto& [child, below] : module.children()) {
      const std::string full = name.empty() ? child : fmt::format("{}.{}", name, child);
      if (full.find('.') == std::string::npos) tops_.push_back(full);
      if (!all && !fits(full)) {
        visit(full, *below);
      } else if (seen_.insert(below.get()).second) {
        found_.push_back({full, below.get()});
      }
    }
  }

  [[nodiscard]] std::vector<UnitModule> found() const {
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (fits_[i]) continue;
      throw InputError(fmt::format(
          "FullyShardOptions: '{}' fits no module outside of other units. The model's parts are {}",
          patterns_[i], fmt::join(tops_, ", ")));
    }
    return found_;
  }

 private:
  bool fits(const std::string& name) {
    bool any = false;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (!nn::fits_pattern(patterns_[i], name)) continue;
      any = true;
      fits_[i] = true;
    }
    return any;
  }

  std::span<const std::string> patterns_;
  std::vector<bool> fits_;
  std::vector<UnitModule> found_;
  std::vector<std::string> tops_;
  std::unordered_set<const nn::Module*> seen_;
};

}  // namespace

std::vector<UnitModule> unit_modules(const nn::Module& model,
                                     std::span<const std::string> patterns) {
  Search search(patterns);
  search.visit("", model);
  std::vector<UnitModule> units{{"", &model}};
  for (UnitModule& unit : search.found()) units.push_back(std::move(unit));

  // A parameter belongs to a unit if all of its names do.
  const auto unit_named = [&](const std::string& name) -> std::size_t {
    for (std::size_t u = 1; u < units.size(); ++u) {
      if (name.starts_with(units[u].name + ".")) return u;
    }
    return 0;
  };
  std::unordered_map<const void*, std::size_t> owners;
  std::unordered_set<const void*> slabs;
  for (const auto& entry : model.state_dict()) {
    const std::size_t unit = unit_named(entry.name);
    const auto [place, is_new] = owners.try_emplace(entry.tensor.data(), unit);
    if (!is_new && place->second != unit) place->second = 0;
    if (entry.placement.sharded) slabs.insert(entry.tensor.data());
  }
  const auto kind = [&](const nn::NamedParameter& parameter) {
    const Tensor& data = parameter.variable.data();
    return std::tuple(data.dtype(), parameter.variable.requires_grad(),
                      slabs.contains(data.data()));
  };
  for (const auto& parameter : model.named_parameters()) {
    auto& runs = units[owners.at(parameter.variable.data().data())].runs;
    const auto run = std::ranges::find_if(
        runs, [&](const auto& others) { return kind(others.front()) == kind(parameter); });
    (run == runs.end() ? runs.emplace_back() : *run).push_back(parameter);
  }
  const auto is_empty = [&](const UnitModule& unit) {
    return unit.module != &model && unit.runs.empty();
  };
  std::erase_if(units, is_empty);
  return units;
}

}  // namespace lockstep
