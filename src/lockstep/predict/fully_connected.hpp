#pragma once
#include <optional>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/linalg/packed_mlp.hpp>

namespace lockstep {

/// The layers of a model that is nothing but Linear and ReLU in a row, with Flatten in front,
/// Dropout between, and at most a LogSoftmax over the last dimension behind; nothing for others.
struct FullyConnected {
  std::vector<PackedMlp::Layer> layers;
  bool flattens = false;  ///< a sample is one row, whatever its shape
  bool log_softmax = false;
};
[[nodiscard]] std::optional<FullyConnected> fully_connected(const nn::Module& model);

}  // namespace lockstep
