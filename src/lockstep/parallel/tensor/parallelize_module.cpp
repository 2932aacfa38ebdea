#include <lockstep/parallel/tensor/parallelize_module.hpp>

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/packed.hpp>
#include <lockstep/deck/did_you_mean.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/recurrent.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep {
namespace {

struct NamedModule {
  std::string name;
  nn::Module* module;
};

/// All modules, each once, under its first name.
std::vector<NamedModule> modules_of(nn::Module& model) {
  std::vector<NamedModule> all;
  std::set<const nn::Module*> seen;
  const auto add = [&](const auto& self, const std::string& name, nn::Module& module) -> void {
    if (!seen.insert(&module).second) return;
    all.push_back({name, &module});
    for (const auto& [child, part] : module.children())
      self(self, name.empty() ? child : fmt::format("{}.{}", name, child), *part);
  };
  add(add, "", model);
  return all;
}

/// Facts that ranks compare: the model's state and the plan's patterns.
std::string description_of(const nn::Module& model, const ParallelPlan& plan) {
  std::string text;
  for (const auto& [name, tensor, placement] : model.state_dict())
    text += name + " " + std::string(name_of(tensor.dtype())) + to_string(tensor.shape()) + "\n";
  for (const auto& [pattern, style] : plan) text += "plan " + pattern + "\n";
  return text;
}

void expect_same_everywhere(const nn::Module& model, ProcessGroup& group,
                            const ParallelPlan& plan) {
  const auto texts = all_gather_object(group, description_of(model, plan));
  const auto other =
      std::ranges::find_if(texts, [&](const std::string& text) { return text != texts[0]; });
  if (other == texts.end()) return;
  throw InputError(fmt::format(
      "parallelize_module: ranks 0 and {} have different models or plans. Give all ranks the same.",
      other - texts.begin()));
}

void broadcast_state(const nn::Module& model, ProcessGroup& group) {
  std::vector<Work> works;
  std::set<const void*> sent;  // tied parameters once
  for (const auto& [name, tensor, placement] : model.state_dict()) {
    if (tensor.numel() > 0 && sent.insert(tensor.data()).second)
      works.push_back(group.broadcast(tensor, 0));
  }
  for (Work& work : works) work.wait();
}

struct Draw {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  static auto fields(auto& self) { return std::tie(self.seed, self.stream); }
};

/// What draws masks in this module itself, or null.
nn::RandomStream* random_of(nn::Module& module) {
  if (auto* const dropout = dynamic_cast<nn::Dropout*>(&module)) return &dropout->random();
  if (auto* const recurrent = dynamic_cast<nn::RecurrentLayer*>(&module))
    return &recurrent->random();
  return nullptr;
}

/// All ranks draw rank 0's masks.
void agree_on_dropout(const std::vector<NamedModule>& modules, ProcessGroup& group) {
  std::vector<nn::RandomStream*> streams;
  for (const auto& [name, module] : modules) {
    if (nn::RandomStream* const stream = random_of(*module)) streams.push_back(stream);
  }
  if (streams.empty()) return;
  std::vector<Draw> draws;
  for (nn::RandomStream* stream : streams) {
    const RandomKey key = stream->next();
    draws.push_back({key.seed, key.stream});
  }
  draws = unpacked<std::vector<Draw>>(broadcast_object(group, packed(draws), 0));
  for (std::size_t i = 0; i < streams.size(); ++i)
    streams[i]->agree_on({.seed = draws[i].seed, .stream = draws[i].stream});
}

/// A parameter under a name that the plan leaves whole, while another name has a slab of it.
void expect_all_names_divided(const nn::Module& model) {
  const StateDict state = model.state_dict();
  for (const auto& whole : state) {
    if (whole.placement.sharded) continue;
    for (const auto& slab : state) {
      if (!slab.placement.sharded || slab.tensor.data() != whole.tensor.data()) continue;
      throw InputError(fmt::format(
          "'{}' is tied to '{}', which ranks share out: name its module in the plan, too",
          whole.name, slab.name));
    }
  }
}

}  // namespace

void parallelize_module(nn::Module& model, const GroupPtr& group, const ParallelPlan& plan) {
  if (!group) throw InputError("parallelize_module needs a group, not a null pointer.");
  expect_same_everywhere(model, *group, plan);
  const std::vector<NamedModule> modules = modules_of(model);
  std::vector<std::string_view> names;
  for (const auto& [name, module] : modules) names.push_back(name);
  broadcast_state(model, *group);
  agree_on_dropout(modules, *group);
  ParallelPlace::Slabs slabs;
  for (const auto& [pattern, style] : plan) {
    bool fits = false;
    for (const auto& [name, module] : modules) {
      if (!nn::fits_pattern(pattern, name)) continue;
      fits = true;
      if (module->partition()) {
        throw InputError(fmt::format(
            "'{}' is shared out already when the pattern '{}' names it. Correct the plan.", name,
            pattern));
      }
      style->apply(ParallelPlace(name, *module, group, slabs));
    }
    if (!fits) {
      throw InputError(fmt::format("the pattern '{}' matches no module of the model. {}", pattern,
                                   did_you_mean(pattern, names)));
    }
  }
  expect_all_names_divided(model);
}

}  // namespace lockstep
