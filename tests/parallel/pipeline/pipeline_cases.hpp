#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/pipeline/pipeline.hpp>
#include <lockstep/parallel/pipeline/split.hpp>

#include "../ranks.hpp"
#include "../small_models.hpp"

// Models in f64 that are trained undivided and as pipelines.

namespace lockstep::test {

/// Parameters by name.
using Weights = std::map<std::string, std::vector<double>>;

inline Weights weights_of(const std::vector<nn::NamedParameter>& parameters) {
  Weights weights;
  for (const auto& [name, variable] : parameters)
    weights[name] = variable.data().to_vector<double>();
  return weights;
}

struct PipelineCase {
  std::string name;
  std::function<std::shared_ptr<nn::Sequential>()> make;
  Tensor input, target;
};

inline Variable mean_nll(const Variable& output, const Tensor& target) {
  return nll_loss(output, target);
}

inline std::vector<PipelineCase> pipeline_cases(std::int64_t rows) {
  const auto seeded = [](auto make) {
    return [make] {
      const nn::DTypeGuard f64(DType::f64);
      const nn::DeviceGuard device(asked_for_device());
      nn::manual_seed(7);
      return make();
    };
  };
  const Batch batch = make_batch(rows, 0.4);
  return {{"mlp", seeded([] {
             return nn::mlp({6}, 4, {9, 8, 10, 11, 9, 8, 10, 11}, nn::Head::log_probabilities,
                            {.activation = nn::MlpLayers::Activation::tanh});
           }),
           batch.x, batch.target},
          {"convnet", seeded([] {
             return nn::convnet({1, 16, 16}, 4, 0.0);
           }),
           wave({rows, 1, 16, 16}, 0.2), batch.target}};
}

constexpr int training_steps = 3;

/// Results of a training: the losses of the steps, and the weights afterwards.
struct Trained {
  std::vector<double> losses;
  Weights weights;
};

/// `gradients` computes a step's and returns the loss.
inline Trained train(const std::vector<nn::NamedParameter>& parameters,
                     const std::function<double()>& gradients) {
  std::optional<optim::SGD> sgd;  // a stage may be without parameters
  if (!parameters.empty()) sgd.emplace(parameters, optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
  Trained trained;
  for (int step = 0; step < training_steps; ++step) {
    if (sgd) sgd->zero_grad();
    trained.losses.push_back(gradients());
    if (sgd) sgd->step();
  }
  trained.weights = weights_of(parameters);
  return trained;
}

/// The undivided model, with the whole batch at once.
inline Trained train_undivided(const PipelineCase& the) {
  const auto model = the.make();
  return train(model->named_parameters(), [&] {
    const Variable loss = mean_nll(model->forward(Variable(the.input)), the.target);
    loss.backward();
    return loss.item();
  });
}

/// Whether the model has a layer for each stage.
inline bool has_stages(const PipelineCase& the, const PipelineSchedule& schedule) {
  return the.make()->children().size() >= static_cast<std::size_t>(schedule.stages());
}

/// This rank's modules of the model.
inline std::vector<std::shared_ptr<nn::Module>> own_stages(const nn::Module& model,
                                                           const PipelineSchedule& schedule,
                                                           int rank) {
  const auto all = split_into_stages(model, schedule.stages());
  std::vector<std::shared_ptr<nn::Module>> own;
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (schedule.rank_of_stage[s] == rank) own.push_back(all[s]);
  }
  return own;
}

inline Trained train_in_pipeline(const PipelineCase& the,
                                 const std::shared_ptr<ProcessGroup>& group,
                                 const PipelineSchedule& schedule) {
  Pipeline pipeline(own_stages(*the.make(), schedule, group->rank()), group, schedule, mean_nll);
  // Only the first and the last rank have data.
  return train(pipeline.named_parameters(), [&] {
    const bool has_first_stage = schedule.rank_of_stage.front() == group->rank();
    return pipeline.step(has_first_stage ? the.input : Tensor(),
                         pipeline.has_last_stage() ? the.target : Tensor());
  });
}

inline void expect_near(const Trained& actual, const Trained& expected, double tolerance,
                        const std::string& what) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < actual.losses.size(); ++i)
    EXPECT_NEAR(actual.losses[i], expected.losses[i], tolerance) << what << ", step " << i;
  for (const auto& [name, values] : actual.weights) {
    const auto place = expected.weights.find(name);
    ASSERT_NE(place, expected.weights.end()) << what << " has no " << name;
    ASSERT_EQ(values.size(), place->second.size()) << what << ", " << name;
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_NEAR(values[i], place->second[i], tolerance) << what << ", " << name << ", " << i;
  }
}

}  // namespace lockstep::test
