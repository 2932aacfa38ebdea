#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/pipeline/pipeline_state.hpp>
#include <lockstep/parallel/pipeline/stages_of.hpp>

#include "pipeline_cases.hpp"

// Models of decks, in f64, cut by stages_of.

namespace lockstep::test {

struct DeckModel {
  std::string name;
  std::function<std::shared_ptr<nn::Module>()> make;
  Tensor input, target;

  [[nodiscard]] std::shared_ptr<nn::Module> made(std::uint64_t seed = 7) const {
    const nn::DTypeGuard f64(DType::f64);
    const nn::DeviceGuard device(asked_for_device());
    nn::manual_seed(seed);
    return make();
  }
};

inline Tensor numbers_below(std::int64_t limit, const Shape& shape, std::int64_t phase) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i) values.push_back((i * 7 + phase) % limit);
  return Tensor::from(values, shape).to(asked_for_device());
}

inline DeckModel deck_gpt(std::int64_t rows = 6, double dropout = 0.0) {
  constexpr std::int64_t vocabulary = 11, context = 5;
  return {"gpt",
          [=] {
            return std::make_shared<nn::Gpt>(nn::GptOptions{.vocabulary = vocabulary,
                                                            .context = context,
                                                            .width = 8,
                                                            .depth = 15,
                                                            .heads = 4,
                                                            .dropout = dropout});
          },
          numbers_below(vocabulary, {rows, context}, 0),
          numbers_below(vocabulary, {rows, context}, 3)};
}

/// Linear layers with BatchNorm: with buffers.
inline DeckModel deck_mlp(std::int64_t rows = 12) {
  return {"mlp",
          [] {
            return nn::mlp({6}, 4, {9, 8, 10, 11, 9, 8, 10, 11}, nn::Head::log_probabilities,
                           {.norm = nn::MlpLayers::Norm::batch,
                            .activation = nn::MlpLayers::Activation::tanh});
          },
          wave({rows, 6}, 0.4), numbers_below(4, {rows}, 1)};
}

/// One model of each kind that decks build, apart from unet.
inline std::vector<DeckModel> deck_models() {
  const Tensor classes = numbers_below(4, {6}, 1);
  const auto kind = [&](const std::string& name, nn::ModelKind options, const Tensor& input) {
    const Shape sample(std::vector<std::int64_t>(input.shape().begin() + 1, input.shape().end()));
    return DeckModel{
        name,
        [=] { return nn::make_model({.kind = options, .freeze = {}}, sample, std::int64_t{4}); },
        input, classes};
  };
  std::vector<DeckModel> all{
      kind("mlp",
           nn::MlpOptions{.hidden = {9, 8, 7}, .layers = {.norm = nn::MlpLayers::Norm::layer}},
           wave({6, 5}, 0.1)),
      kind("convnet", nn::ConvnetOptions{.dropout = 0.0}, wave({6, 1, 16, 16}, 0.2)),
      kind("transformer of images",
           nn::TransformerOptions{.width = 8, .depth = 3, .heads = 2, .patch = {4}},
           wave({6, 1, 8, 8}, 0.4)),
      kind("transformer of rows", nn::TransformerOptions{.width = 8, .depth = 2, .heads = 2},
           wave({6, 5}, 0.5)),
      kind("transformer of words",
           nn::TransformerOptions{.width = 8, .depth = 2, .heads = 2, .vocabulary = 9},
           numbers_below(9, {6, 5}, 2)),
      deck_gpt(),
  };
  // Large for a simulated device, which protects each kernel's memory.
  if (asked_for_device() == Device{})
    all.push_back(kind("resnet18", nn::ResNet18Options{}, wave({1, 1, 8, 8}, 0.3)));
  return all;
}

/// A stage of a Gpt returns the head's input.
inline Pipeline::Loss loss_of(const PipelineStages& cut) {
  return [cut](const Variable& y, const Tensor& target) {
    return cut.head ? cut.head->loss(y, target) : nll_loss(y, target);
  };
}

/// The undivided model's loss of some rows.
inline Variable loss_of(nn::Module& model, const Tensor& input, const Tensor& target) {
  if (auto* const gpt = dynamic_cast<nn::Gpt*>(&model)) return gpt->loss(Variable(input), target);
  return nll_loss(model.forward(Variable(input)), target);
}

/// This rank's part of a pipeline in training.
struct PipelineTraining {
  PipelineTraining(const DeckModel& the, const std::shared_ptr<ProcessGroup>& group,
                   const PipelineSchedule& schedule, std::uint64_t seed = 7,
                   const std::shared_ptr<ProcessGroup>& tensor_group = nullptr) {
    const auto model = the.made(seed);
    const PipelineStages cut = stages_of(model, schedule.stages());
    if (tensor_group) tensor_parallelize(*model, cut, tensor_group);
    pipeline.emplace(cut.of_rank(schedule, group->rank()), group, schedule, loss_of(cut),
                     PipelineOptions{.tied = cut.tied, .data_parallel = {}});
    optimizer.emplace(pipeline->named_parameters());
    optimizer->take_placements(pipeline->state_dict());
    slots.emplace(*group, optimizer->state_dict());
  }
  ~PipelineTraining() {
    try {
      pipeline->close();
    } catch (const Error&) {
      ADD_FAILURE() << "the pipeline's groups have failed";
    }
  }
  PipelineTraining(const PipelineTraining&) = delete;
  PipelineTraining& operator=(const PipelineTraining&) = delete;

  double step(const DeckModel& the) {
    optimizer->zero_grad();
    const double loss = pipeline->step(the.input, the.target);
    optimizer->step();
    return loss;
  }
  [[nodiscard]] StateDict optimizer_state() const { return slots->of_all(optimizer->state_dict()); }

  std::optional<Pipeline> pipeline;
  std::optional<optim::AdamW> optimizer;
  std::optional<PipelineState> slots;
};

}  // namespace lockstep::test
