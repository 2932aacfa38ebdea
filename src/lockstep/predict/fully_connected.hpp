#pragma once
#include <optional>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/linalg/packed_mlp.hpp>

namespace lockstep {

/// The layers of a sequential model of Linear and ReLU only, with optional Flatten in front,
/// Dropout between, and a LogSoftmax over the last dimension at the end; nothing for other models.
struct FullyConnected {
  std::vector<PackedMlp::Layer> layers;
  bool flattens = false;  ///< a sample is one row, whatever its shape
  bool log_softmax = false;
};
[[nodiscard]] std::optional<FullyConnected> fully_connected(const nn::Module& model);

}  // namespace lockstep
