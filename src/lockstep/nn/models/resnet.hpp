#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/nn/models/model_kind.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {

/// The keys that all ResNets of a deck have.
struct ResNetOptions {
  /// How the network begins. small, for images as CIFAR's: conv1 of 3 x 3, stride 1. imagenet:
  /// torchvision's conv1 of 7 x 7, stride 2, and a max-pool of 3 x 3, stride 2.
  enum class Stem : std::uint8_t { small, imagenet } stem = Stem::small;
  /// The last BatchNorm of each block begins with weight 0, so that blocks begin as the identity
  /// (Goyal et al. 2017, arXiv:1706.02677); torchvision's zero_init_residual.
  bool zero_init_residual = false;
};

/// A residual network (He et al. 2016, arXiv:1512.03385) of images [N, channels, H, W]:
/// torchvision's resnet18, 34, 50, 101 or 152 with its names, state and initialisation. From 50 on
/// its blocks are bottlenecks with the stride in the 3 x 3 convolution ("v1.5"). With the stem
/// `imagenet` and 1,000 outputs a state dict of torchvision's fits. Throws InputError for another
/// depth, or if the image is smaller than 8 x 8.
[[nodiscard]] std::shared_ptr<Sequential> resnet(int depth, const Shape& image,
                                                 std::int64_t outputs,
                                                 Head head = Head::log_probabilities,
                                                 const ResNetOptions& options = {});

/// resnet(18, ...) with a small stem: 11.17 million parameters for 10 classes.
[[nodiscard]] inline std::shared_ptr<Sequential> resnet18(const Shape& image, std::int64_t outputs,
                                                          Head head = Head::log_probabilities) {
  return resnet(18, image, outputs, head);
}

void declare(DeckTable& table, ResNetOptions& options);

/// The kind of a deck's model.kind = "resnet<depth>".
template <int depth>
struct ResNetOf : ResNetOptions {
  [[nodiscard]] std::shared_ptr<Module> make(const ModelFit& fit) const {
    fit.expect_numbers();
    return resnet(depth, fit.sample, fit.outputs(), fit.head, *this);
  }
};
using ResNet18Options = ResNetOf<18>;
using ResNet34Options = ResNetOf<34>;
using ResNet50Options = ResNetOf<50>;
using ResNet101Options = ResNetOf<101>;
using ResNet152Options = ResNetOf<152>;

}  // namespace lockstep::nn
