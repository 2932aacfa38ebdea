#pragma once
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/predict/predictor.hpp>

namespace lockstep::test {

inline ModelSignature signature_of(const Shape& input, const Shape& output,
                                   ModelSignature::Output kind = ModelSignature::Output::values) {
  return {.input = {.name = "input", .shape = input},
          .output = {.name = "output", .shape = output},
          .kind = kind};
}

/// Distinct numbers of both signs.
inline std::vector<float> raw_inputs(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(3 * static_cast<float>(std::sin(0.3 * static_cast<double>(i))));
  return values;
}

/// A small network of each kind of the zoo, and its signature.
struct Network {
  const char* name;
  nn::ModelOptions options;
  Shape input;
};
inline std::vector<Network> zoo() {
  return {{"small mlp", {.kind = nn::MlpOptions{.hidden = {16, 8}}}, {12}},
          {"wide mlp", {.kind = nn::MlpOptions{.hidden = {1200, 1000}}}, {3, 4}},
          {"convnet", {.kind = nn::ConvnetOptions()}, {1, 28, 28}},
          {"resnet18", {.kind = nn::ResNet18Options()}, {3, 8, 8}},
          {"transformer",
           {.kind = nn::TransformerOptions{.width = 16, .depth = 1, .heads = 2, .patch = {4}}},
           {1, 8, 8}}};
}

/// A classifier of 5 classes with scaled inputs.
inline Predictor scaling_predictor(const nn::ModelOptions& options, const Shape& input) {
  nn::manual_seed(1);
  ModelSignature signature = signature_of(input, {5}, ModelSignature::Output::log_probabilities);
  signature.input.mean = {0.5};
  signature.input.std = {2};
  return {nn::make_model(options, input, 5), signature};
}

}  // namespace lockstep::test
