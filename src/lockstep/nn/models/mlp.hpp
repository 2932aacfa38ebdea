#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/nn/models/head.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

/// What follows each hidden Linear of an mlp, in this order.
struct MlpLayers {
  enum class Norm : std::uint8_t { none, batch, layer } norm = Norm::none;
  enum class Activation : std::uint8_t { relu, gelu, silu, tanh, sigmoid };
  Activation activation = Activation::relu;
  double dropout = 0.0;  ///< probability; 0: no layer
};

/// Flatten, then for each hidden size Linear and what `layers` says, Linear to `outputs`, and the
/// head's log-softmax. Parameters fc1, norm1, fc2, ...
[[nodiscard]] std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t outputs,
                                              const std::vector<std::int64_t>& hidden,
                                              Head head = Head::log_probabilities,
                                              const MlpLayers& layers = {});

}  // namespace lockstep::nn
