#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/nn/models/head.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {
class DeckTable;
}

namespace lockstep::nn {

/// Which network of the model zoo, and its sizes.
struct ModelOptions {
  enum class Kind : std::uint8_t { convnet, mlp, resnet18, transformer };
  Kind kind = Kind::convnet;
  double dropout = 0.5;                        ///< probability, in every dropout layer
  std::vector<std::int64_t> hidden{512, 256};  ///< mlp: features of each hidden layer
  MlpLayers layers;                            ///< mlp: what follows each of them
  TransformerOptions transformer;
  std::vector<std::string> freeze;  ///< patterns of parameters' names (freeze())
};
void declare(DeckTable& table, ModelOptions& options);

/// The model that `options` names, for samples of shape `sample` (without the batch dimension):
/// `outputs` numbers a sample, classes or values; frozen where `options` says so. Throws InputError
/// as freeze() does.
[[nodiscard]] std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                                 std::int64_t outputs,
                                                 Head head = Head::log_probabilities);

}  // namespace lockstep::nn
