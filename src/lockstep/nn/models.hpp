#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/nn/models/head.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/models/unet.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {
class DeckTable;
}

namespace lockstep::nn {

/// Which network of the model zoo, and its sizes.
struct ModelOptions {
  enum class Kind : std::uint8_t { convnet, mlp, resnet18, transformer, gpt, unet };
  Kind kind = Kind::convnet;
  double dropout = 0.5;                        ///< probability, in every dropout layer
  std::vector<std::int64_t> hidden{512, 256};  ///< mlp: features of each hidden layer
  MlpLayers layers;                            ///< mlp: what follows each of them; unet
  UNetOptions unet;
  TransformerOptions transformer;   ///< width, depth and heads also of gpt
  std::int64_t context = 0;         ///< gpt: positions; 0: as many as a sample has
  double residual_dropout = 0.0;    ///< gpt: GptOptions::dropout
  bool recompute = false;           ///< gpt: GptOptions::recompute
  std::vector<std::string> freeze;  ///< patterns of parameters' names (freeze())
};
void declare(DeckTable& table, ModelOptions& options);

/// The model that `options` names, for samples of shape `sample` (without the batch dimension) and
/// outputs of shape `output`: [classes], for gpt of a token, or values of any shape, which all but
/// unet give in one dimension; frozen where `options` says so. Throws InputError as freeze() does,
/// and for sizes that do not fit together.
[[nodiscard]] std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                                 const Shape& output,
                                                 Head head = Head::log_probabilities);
[[nodiscard]] inline std::shared_ptr<Module> make_model(const ModelOptions& options,
                                                        const Shape& sample, std::int64_t outputs,
                                                        Head head = Head::log_probabilities) {
  return make_model(options, sample, Shape{outputs}, head);
}

}  // namespace lockstep::nn
