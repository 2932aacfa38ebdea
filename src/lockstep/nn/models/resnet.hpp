#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/nn/models/model_kind.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

/// ResNet-18 (He et al. 2016, arXiv:1512.03385) for small images [N, channels, H, W], as CIFAR's:
/// torchvision's resnet18 with its names and initialisation, but a first convolution of 3 x 3 with
/// stride 1 and no max-pool behind it. 11.17 million parameters for 10 classes. Throws InputError
/// if the image is smaller than 8 x 8.
[[nodiscard]] std::shared_ptr<Sequential> resnet18(const Shape& image, std::int64_t outputs,
                                                   Head head = Head::log_probabilities);

/// The model kind resnet18, which has no options.
struct ResNet18Options {
  [[nodiscard]] static std::shared_ptr<Module> make(const ModelFit& fit);
};
inline void declare(DeckTable& /*table*/, ResNet18Options& /*options*/) {}

}  // namespace lockstep::nn
