#include <lockstep/parallel/pipeline/stages_of.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <typeinfo>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/describe.hpp>
#include <lockstep/nn/layered.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/nn/module_list.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/parallel/pipeline/split.hpp>
#include <lockstep/parallel/tensor/parallel_style.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

namespace lockstep {
namespace {

using ModulePtr = std::shared_ptr<nn::Module>;

/// A model as a row of layers.
struct Row {
  std::size_t layers = 0;
  std::function<ModulePtr(std::size_t first, std::size_t end)> part;
};

/// A layer of a Sequential, or of a Sequential in it: the names on the way to it, and its own.
struct Leaf {
  std::vector<std::string> path;
  ModulePtr layer;
};

bool is_list(const nn::Module& module) {
  // Exactly this class: a derived class may have another forward.
  return typeid(module) == typeid(nn::Sequential);
}

void collect(const nn::Module& list, const std::vector<std::string>& path,
             std::vector<Leaf>& leaves) {
  for (const auto& [name, layer] : list.children()) {
    auto its_path = path;
    its_path.push_back(name);
    if (is_list(*layer)) {
      collect(*layer, its_path, leaves);
    } else {
      leaves.push_back({its_path, layer});
    }
  }
}

/// Sequentials in one another, with the names of the whole.
ModulePtr sequential_of(const std::vector<Leaf>& leaves, std::size_t first, std::size_t end) {
  const auto whole = std::make_shared<nn::Sequential>();
  for (std::size_t i = first; i < end; ++i) {
    auto list = whole;
    const auto& path = leaves[i].path;
    for (std::size_t depth = 0; depth + 1 < path.size(); ++depth) {
      const auto& there = list->children();
      if (there.empty() || there.back().first != path[depth])
        list->push_back(path[depth], std::make_shared<nn::Sequential>());
      list = std::static_pointer_cast<nn::Sequential>(list->children().back().second);
    }
    list->push_back(path.back(), leaves[i].layer);
  }
  return whole;
}

Row row_of(const ModulePtr& model) {
  if (const auto* const layered = dynamic_cast<const nn::Layered*>(model.get())) {
    return {layered->layer_count(),
            [layered](std::size_t first, std::size_t end) { return layered->layers(first, end); }};
  }
  const nn::Module& whole = *model;
  if (is_list(whole) || typeid(whole) == typeid(nn::ModuleList)) {
    std::vector<Leaf> leaves;
    collect(*model, {}, leaves);
    // Layers without parameters belong to the layer before: each stage has something to train, and
    // operations that Sequential fuses stay together.
    std::vector<std::size_t> begins;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].layer->parameters().empty()) begins.push_back(begins.empty() ? 0 : i);
    }
    const std::size_t count = begins.size();
    begins.push_back(leaves.size());
    return {count, [leaves = std::move(leaves), begins](std::size_t first, std::size_t end) {
              return sequential_of(leaves, begins[first], begins[end]);
            }};
  }
  throw InputError(fmt::format(
      "a {} cannot be cut into the stages of a pipeline: its layers are not one row. Models that "
      "can are gpt, transformer, mlp, convnet and resnet, any Sequential, and a model of your own "
      "that derives from nn::Layered. Train this one with mesh.pp = 1.",
      nn::class_name_of(*model)));
}

std::vector<double> costs_of(const Row& row, const Tensor& sample) {
  std::vector<double> costs;
  const NoGradGuard no_grad;
  Variable x = sample.defined() ? Variable(sample) : Variable();
  for (std::size_t i = 0; i < row.layers; ++i) {
    const ModulePtr layer = row.part(i, i + 1);
    if (!sample.defined()) {
      costs.push_back(static_cast<double>(layer->parameter_count()));
      continue;
    }
    const nn::ModeGuard evaluating(*layer, false);
    const FlopCounter counter;
    x = (*layer)(x);
    costs.push_back(static_cast<double>(counter.flops()));
  }
  return costs;
}

void expect_enough(const nn::Module& model, std::size_t layers, int stages) {
  if (stages >= 1 && layers >= static_cast<std::size_t>(stages)) return;
  throw InputError(
      fmt::format("a {} of {} layers with parameters cannot be cut into {} stages of a pipeline: "
                  "there must be at least one, and a layer for each. Use fewer ranks in mesh.pp.",
                  nn::class_name_of(model), layers, stages));
}

/// Parameters that several of the stages hold.
std::vector<std::vector<StageParameter>> tied_in(const std::vector<ModulePtr>& modules) {
  std::vector<std::vector<StageParameter>> in_order;
  std::map<const void*, std::size_t> places;
  for (std::size_t stage = 0; stage < modules.size(); ++stage) {
    for (const auto& [name, variable] : modules[stage]->named_parameters()) {
      const auto [place, is_new] = places.try_emplace(variable.record(), in_order.size());
      if (is_new) in_order.emplace_back();
      in_order[place->second].push_back({static_cast<int>(stage), name});
    }
  }
  std::erase_if(in_order, [](const auto& holders) { return holders.size() < 2; });
  return in_order;
}

}  // namespace

std::vector<ModulePtr> PipelineStages::of_rank(const PipelineSchedule& schedule, int rank) const {
  std::vector<ModulePtr> own;
  for (std::size_t stage = 0; stage < modules.size(); ++stage) {
    if (schedule.rank_of_stage.at(stage) == rank) own.push_back(modules[stage]);
  }
  return own;
}

PipelineStages stages_of(const ModulePtr& model, int stages, const Tensor& sample) {
  if (!model) throw InputError("stages_of: the model is a null pointer.");
  PipelineStages cut;
  if (const auto* const gpt = dynamic_cast<const nn::Gpt*>(model.get())) {
    expect_enough(*model, static_cast<std::size_t>(gpt->options().depth) + 1, stages);
    for (const auto& stage : split_into_stages(*gpt, stages)) {
      cut.modules.push_back(stage);
      cut.head = stage;
    }
  } else if (stages == 1) {
    cut.modules.push_back(model);
  } else {
    const Row row = row_of(model);
    expect_enough(*model, row.layers, stages);
    auto first = balanced_stages(costs_of(row, sample), stages);
    first.push_back(row.layers);
    for (std::size_t s = 0; s + 1 < first.size(); ++s)
      cut.modules.push_back(row.part(first[s], first[s + 1]));
  }
  cut.tied = tied_in(cut.modules);
  return cut;
}

void tensor_parallelize(nn::Module& model, const PipelineStages& stages, const GroupPtr& group) {
  tensor_parallelize(model, group);
  if (!stages.head) return;
  for (const ModulePtr& stage : stages.modules) {
    ParallelPlace::Slabs slabs;
    GptParallel().apply(ParallelPlace("", *stage, group, slabs));
  }
}

}  // namespace lockstep
