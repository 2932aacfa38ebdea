#pragma once
#include <string>
#include <vector>

#include <lockstep/tensor/kernels/data/gather.hpp>

namespace lockstep {

/// How stored numbers become inputs: (x - mean) / std in float32, where x is a byte / 255 or a
/// number of another type as it is. One mean and std for all, or one a channel: the leading
/// dimension of a sample, so that features [F] have one each and images [C, H, W] one a colour.
struct Normalisation {
  std::vector<double> mean{0.1307};  ///< MNIST's customary ones
  std::vector<double> std{0.3081};
};

/// The same for samples of shape `sample` stored as `stored`. `name` stands for the data in
/// messages, the deck's keys are `data.<prefix>mean` and `data.<prefix>std`. Throws InputError if
/// there are neither one nor as many as channels, or a std is not above 0.
[[nodiscard]] ChannelScale channel_scale(const Normalisation& normalisation, const Shape& sample,
                                         DType stored, const std::string& name,
                                         const std::string& prefix = "");

}  // namespace lockstep
