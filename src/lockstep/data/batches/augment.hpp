#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/data/dataset.hpp>

namespace lockstep {

/// Pads images on all sides and crops them to their size at a random place: torchvision's
/// RandomCrop(size, padding).
class RandomCrop final : public BatchTransform {
 public:
  /// `padding` in pixels, at least 1. `fill` is the value of added pixels, one per channel, as an
  /// input, so after normalisation.
  RandomCrop(std::int64_t padding, const std::vector<float>& fill, std::uint64_t seed);
  void apply(const Batch& batch, std::int64_t epoch) const override;

 private:
  std::int64_t padding_;
  Tensor fill_;
  std::uint64_t seed_;
};

/// Mirrors half of the images left to right: torchvision's RandomHorizontalFlip.
class RandomHorizontalFlip final : public BatchTransform {
 public:
  explicit RandomHorizontalFlip(std::uint64_t seed) : seed_(seed) {}
  void apply(const Batch& batch, std::int64_t epoch) const override;

 private:
  std::uint64_t seed_;
};

/// Transforms of training images.
struct AugmentOptions {
  std::int64_t crop_padding = 0;  ///< pixels; 0: no crop
  bool flip = false;
  std::uint64_t seed = 0;  ///< of data sets that vary their samples; make_datasets sets it
};

/// The transforms named by `options`, for samples of shape `sample`; empty if it names none. `fill`
/// as above, or one value for all channels. Throws InputError if the samples are not images.
[[nodiscard]] BatchTransforms make_augmentation(const AugmentOptions& options, const Shape& sample,
                                                std::vector<float> fill, std::uint64_t seed);

}  // namespace lockstep
