#include <lockstep/parallel/tensor/plans.hpp>

#include <algorithm>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep {
namespace {

std::shared_ptr<const ParallelStyle> column(const ColwiseOptions& options) {
  return std::make_shared<ColwiseParallel>(options);
}

std::shared_ptr<const ParallelStyle> row(const RowwiseOptions& options) {
  return std::make_shared<RowwiseParallel>(options);
}

/// Of layers with `features` between linear1 and linear2.
ParallelPlan encoder_plan(std::int64_t features, bool sequence) {
  const std::string layer = "encoder.layers.*.";
  ParallelPlan plan{{layer + "self_attn", std::make_shared<HeadParallel>(sequence)},
                    {layer + "linear1", column({.sequence = sequence})},
                    {layer + "dropout", std::make_shared<DropoutParallel>(features)},
                    {layer + "linear2", row({.sequence = sequence})}};
  if (!sequence) return plan;
  plan.emplace_back("encoder", std::make_shared<SequenceRegion>());
  const auto style = std::make_shared<SequenceParallel>();
  for (const std::string& name : {layer + "norm?", layer + "dropout?", std::string("encoder.norm")})
    plan.emplace_back(name, style);
  return plan;
}

/// The plan of a model as nn::transformer makes it; empty for others.
ParallelPlan plan_if_transformer(const nn::Module& model) {
  for (const auto& [name, module] : model.children()) {
    const auto* const encoder = dynamic_cast<const nn::TransformerEncoder*>(module.get());
    if (name != "encoder" || !encoder) continue;
    for (const auto& [parameter, variable] : encoder->named_parameters())
      if (parameter == "layers.0.linear1.weight") return encoder_plan(variable.shape()[0], false);
  }
  return {};
}

}  // namespace

ParallelPlan gpt_plan(const nn::GptOptions& model, const TensorParallelOptions& options) {
  const bool sequence = options.sequence;
  ParallelPlan plan{
      {"", std::make_shared<GptParallel>(sequence)},
      {"wte", row({})},
      {"h.*.attn.c_attn", column({.units = model.heads, .parts = 3, .sequence = sequence})},
      {"h.*.attn.c_proj", row({.units = model.heads, .sequence = sequence})},
      {"h.*.mlp.c_fc", column({.sequence = sequence})},
      {"h.*.mlp.c_proj", row({.sequence = sequence})}};
  if (!sequence) return plan;
  const auto style = std::make_shared<SequenceParallel>();
  for (const char* name : {"dropout", "h.*.ln_?", "h.*.attn.dropout", "h.*.mlp.dropout", "ln_f"})
    plan.emplace_back(name, style);
  return plan;
}

void parallelize_gpt(nn::Gpt& model, const GroupPtr& group, const TensorParallelOptions& options) {
  parallelize_module(model, group, gpt_plan(model.options(), options));
}

ParallelPlan transformer_plan(const nn::TransformerOptions& model,
                              const TensorParallelOptions& options) {
  return encoder_plan(model.feedforward > 0 ? model.feedforward : 4 * model.width,
                      options.sequence);
}

ParallelPlan mlp_plan(const nn::Module& model) {
  ParallelPlan plan, pair;  // pair: from a column to its row
  std::int64_t features = 0;
  for (const auto& [name, module] : model.children()) {
    if (const auto* const linear = dynamic_cast<const nn::Linear*>(module.get())) {
      if (pair.empty()) {
        pair.emplace_back(name, column({}));
        features = linear->weight().shape()[0];
        continue;
      }
      pair.emplace_back(name, row({}));
      plan.insert(plan.end(), pair.begin(), pair.end());
      pair.clear();
    } else if (!pair.empty() && dynamic_cast<const nn::Dropout*>(module.get())) {
      pair.emplace_back(name, std::make_shared<DropoutParallel>(features));
    } else if (!pair.empty() && !module->parameters().empty()) {
      throw InputError("mlp_plan: '" + name + "' lies between '" + pair.front().first +
                       "' and its partner, where a rank has a part of the features only. Build the "
                       "mlp without norms.");
    }
  }
  return plan;
}

void tensor_parallelize(nn::Module& model, const GroupPtr& group) {
  if (auto* const gpt = dynamic_cast<nn::Gpt*>(&model)) return parallelize_gpt(*gpt, group);
  const bool is_mlp = dynamic_cast<const nn::Sequential*>(&model) &&
                      std::ranges::all_of(model.children(), [](const auto& child) {
                        return child.second->parameters().empty() ||
                               dynamic_cast<const nn::Linear*>(child.second.get());
                      });
  const ParallelPlan plan = is_mlp ? mlp_plan(model) : plan_if_transformer(model);
  if (plan.empty()) {
    throw InputError(
        "tensor parallelism has a ready plan for model.kind = \"gpt\" and \"transformer\", and for "
        "\"mlp\" with at least two layers, not for this model. Divide it by parallelize_module "
        "and a plan of your own, or train it data-parallel (mesh.tp = 1)");
  }
  parallelize_module(model, group, plan);
}

}  // namespace lockstep
