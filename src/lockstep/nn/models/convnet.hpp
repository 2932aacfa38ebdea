#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/nn/models/model_kind.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

/// The classic small ConvNet for images [N, channels, H, W]: conv 10 k5, maxpool 2, relu, conv 20
/// k5, dropout2d, maxpool 2, relu, fc 50, relu, dropout, fc `outputs`, and the head's log-softmax.
/// Parameters conv1, conv2, fc1, fc2. Throws InputError if the image is smaller than 16 x 16.
[[nodiscard]] std::shared_ptr<Sequential> convnet(const Shape& image, std::int64_t outputs,
                                                  double dropout = 0.5,
                                                  Head head = Head::log_probabilities);

/// Options of the model kind convnet.
struct ConvnetOptions {
  double dropout = 0.5;  ///< probability, in every dropout layer

  [[nodiscard]] std::shared_ptr<Module> make(const ModelFit& fit) const;
};
void declare(DeckTable& table, ConvnetOptions& options);

}  // namespace lockstep::nn
