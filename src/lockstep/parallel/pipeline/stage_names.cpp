#include <lockstep/parallel/pipeline/stage_names.hpp>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/comm/agreement.hpp>

namespace lockstep {
namespace {

/// A name of a stage, and where its tensor is on its rank.
struct Used {
  std::string name;
  int stage = 0;
  std::uint64_t address = 0;

  static auto fields(auto& self) { return std::tie(self.name, self.stage, self.address); }
};

bool are_tied(const std::vector<std::vector<StageParameter>>& tied, const Used& a, const Used& b) {
  return std::ranges::any_of(tied, [&](const std::vector<StageParameter>& together) {
    const auto has = [&](const Used& one) {
      return std::ranges::any_of(together, [&](const StageParameter& parameter) {
        return parameter.stage == one.stage && parameter.name == one.name;
      });
    };
    return has(a) && has(b);
  });
}

/// Whether two stages use one name for different tensors. Collective.
bool names_clash(const StageExecutor& executor,
                 const std::vector<std::vector<StageParameter>>& tied) {
  const auto own = [&] {
    std::vector<Used> used;
    for (const auto& stage : executor.stages()) {
      for (const auto& [name, tensor, placement] : stage.module->state_dict()) {
        const auto address = reinterpret_cast<std::uintptr_t>(tensor.data());
        used.push_back({name, stage.number, address});
      }
    }
    return used;
  };
  std::unordered_map<std::string, const Used*> first;
  const auto all = agree(executor.group(), own);
  for (const auto& of_rank : all) {
    for (const Used& used : of_rank) {
      const auto [place, is_new] = first.try_emplace(used.name, &used);
      const Used& other = *place->second;
      const bool same_rank = executor.rank_of(other.stage) == executor.rank_of(used.stage);
      if (is_new || (same_rank && other.address == used.address)) continue;
      if (!are_tied(tied, other, used)) return true;
    }
  }
  return false;
}

}  // namespace

StageNames::StageNames(const StageExecutor& executor,
                       const std::vector<std::vector<StageParameter>>& tied)
    : numbered_(names_clash(executor, tied)) {
  const auto is = [](const Variable& variable) {
    return [record = variable.record()](const nn::NamedParameter& one) {
      return one.variable.record() == record;
    };
  };
  for (const auto& together : tied) {
    for (const StageParameter& one : together) {
      if (!executor.has_stage(one.stage)) continue;
      const auto all = executor.stage(one.stage).module->named_parameters();
      const auto place = std::ranges::find(all, one.name, &nn::NamedParameter::name);
      tied_.emplace_back(place->variable, together.front());
      break;
    }
  }
  for (const auto& stage : executor.stages()) {
    for (const auto& [name, variable] : stage.module->named_parameters()) {
      if (std::ranges::any_of(parameters_, is(variable))) continue;
      const std::string first = first_name_of(variable);
      parameters_.push_back({first.empty() ? prefix(stage.number) + name : first, variable});
    }
  }
}

std::string StageNames::prefix(int stage) const {
  return numbered_ ? fmt::format("stage{}.", stage) : "";
}

std::string StageNames::first_name_of(const Variable& parameter) const {
  for (const auto& [variable, first] : tied_) {
    if (variable.record() == parameter.record()) return prefix(first.stage) + first.name;
  }
  return "";
}

StateDict StageNames::state_of(const StageExecutor& executor) const {
  StateDict state;
  const auto insert = [&](const std::string& name, const StateDict::Entry& entry) {
    if (!state.find(name)) state.insert(name, entry.tensor, entry.placement);
  };
  for (const auto& stage : executor.stages()) {
    for (const auto& entry : stage.module->state_dict()) {
      insert(prefix(stage.number) + entry.name, entry);
      for (const auto& [variable, first] : tied_) {
        if (variable.data().data() == entry.tensor.data())
          insert(prefix(first.stage) + first.name, entry);
      }
    }
  }
  return state;
}

}  // namespace lockstep
