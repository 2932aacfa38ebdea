#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/nn/sequential.hpp>

namespace lockstep {
class DeckTable;
}

namespace lockstep::nn {

/// Which network of the model zoo, and its sizes.
struct ModelOptions {
  enum class Kind : std::uint8_t { convnet, mlp };
  Kind kind = Kind::convnet;
  double dropout = 0.5;                        ///< probability, in every dropout layer
  std::vector<std::int64_t> hidden{512, 256};  ///< mlp: features of each hidden layer
};
void declare(DeckTable& table, ModelOptions& options);

/// The classic small ConvNet for images [N, channels, H, W]: conv 10 k5, maxpool 2, relu, conv 20
/// k5, dropout2d, maxpool 2, relu, fc 50, relu, dropout, fc `classes`, log-softmax. Parameters
/// conv1, conv2, fc1, fc2. Throws InputError if the image is smaller than 16 x 16.
[[nodiscard]] std::shared_ptr<Sequential> convnet(const Shape& image, std::int64_t classes,
                                                  double dropout = 0.5);

/// Flatten, then Linear and ReLU for each hidden size, Linear to `classes`, log-softmax. Parameters
/// fc1, fc2, ...
[[nodiscard]] std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t classes,
                                              const std::vector<std::int64_t>& hidden);

/// The model that `options` names, for samples of shape `sample` (without the batch dimension).
[[nodiscard]] std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                                 std::int64_t classes);

}  // namespace lockstep::nn
