#pragma once
#include <string>
#include <vector>

#include <lockstep/tensor/kernels/data/gather.hpp>

namespace lockstep {

/// Conversion of stored numbers to inputs: (x - mean) / std in float32, where x is a byte / 255 or
/// a number of another type unchanged. One mean and std for all, or one per channel, the leading
/// dimension of a sample: features [F] have one each, images [C, H, W] one per colour. By default x
/// itself.
struct Normalisation {
  std::vector<double> mean{0.0};
  std::vector<double> std{1.0};
};

/// The customary one of MNIST, which Fashion-MNIST and generated images have too.
[[nodiscard]] inline Normalisation mnist_normalisation() { return {{0.1307}, {0.3081}}; }

/// The normalisation for samples of shape `sample` stored as `stored`. `name` names the data in
/// messages; the deck's keys are `data.<prefix>mean` and `data.<prefix>std`. Throws InputError
/// unless there is one or as many as channels, and every std is above 0.
[[nodiscard]] ChannelScale channel_scale(const Normalisation& normalisation, const Shape& sample,
                                         DType stored, const std::string& name,
                                         const std::string& prefix = "");

}  // namespace lockstep
