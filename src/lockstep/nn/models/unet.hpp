#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/model_kind.hpp>

namespace lockstep::nn {

/// Options of the model kind unet.
struct UNetOptions {
  static constexpr std::int64_t most_levels = 10;
  std::int64_t channels = 16;  ///< of the convolutions at full resolution; twice as many a level
  std::int64_t levels = 2;     ///< halvings of the extents; 0: a row of convolutions
  MlpLayers layers;            ///< the layers after each hidden convolution; no dropout

  [[nodiscard]] std::shared_ptr<Module> make(const ModelFit& fit) const;
};
void declare(DeckTable& table, UNetOptions& options);

/// A convolutional network from fields to fields of the same extents: images [C, H, W] or volumes
/// [C, D, H, W] -> [outputs, ...] (Ronneberger et al. 2015, arXiv:1505.04597, with padding, as the
/// volumes of arXiv:1606.06650). Each block is two convolutions of width 3 with `layers`' norm
/// (layer: GroupNorm of one group) and activation behind them:
///   inc; for each level max-pool 2 and a block, down1 ...;
///   for each level, from the deepest, a transposed convolution of stride 2, up1 ..., and a block
///   of its result behind that of the same extents on the way down, merge1 ...;
///   outc, a convolution of width 1.
/// Parameters inc.conv1.weight, down1.conv2.bias, up1.weight, merge1.conv1.weight, outc.weight ...
/// Throws InputError unless 2^levels divides the extents, or for a dropout.
[[nodiscard]] std::shared_ptr<Module> unet(const Shape& sample, std::int64_t output_channels,
                                           const UNetOptions& options = {});

}  // namespace lockstep::nn
