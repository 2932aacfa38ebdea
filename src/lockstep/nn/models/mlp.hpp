#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/nn/models/model_kind.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

/// The layers after each hidden Linear of an mlp, or convolution of a unet, in this order.
struct MlpLayers {
  enum class Norm : std::uint8_t { none, batch, layer } norm = Norm::none;
  enum class Activation : std::uint8_t { relu, gelu, silu, tanh, sigmoid };
  Activation activation = Activation::relu;
  double dropout = 0.0;  ///< probability; 0: no layer
};

/// Appends the activation to `model`, as "relu1" if `at` is "1".
void push_activation(Sequential& model, MlpLayers::Activation activation, const std::string& at);

/// Flatten, then for each hidden size Linear and the layers in `layers`, Linear to `outputs`, and
/// the head's log-softmax. Parameters fc1, norm1, fc2, ... Throws InputError for more than 10,000
/// hidden layers.
[[nodiscard]] std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t outputs,
                                              const std::vector<std::int64_t>& hidden,
                                              Head head = Head::log_probabilities,
                                              const MlpLayers& layers = {});

/// Options of the model kind mlp.
struct MlpOptions {
  std::vector<std::int64_t> hidden{512, 256};  ///< features of each hidden layer
  MlpLayers layers;                            ///< the layers after each of them

  [[nodiscard]] std::shared_ptr<Module> make(const ModelFit& fit) const;
};
void declare(DeckTable& table, MlpOptions& options);
/// The keys `norm` and `activation`.
void declare_norm_and_activation(DeckTable& table, MlpLayers& layers, std::string_view norm_doc);

}  // namespace lockstep::nn
