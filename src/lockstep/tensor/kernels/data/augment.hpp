#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Random changes of images x[n, C, H, W] (f32), in place. An image's augmentation is a function of
// (seed, epoch, its number in indices i64 [n]) alone: independent of rank and batch.

namespace lockstep {

/// Which random numbers an augmentation draws.
struct AugmentKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
};

/// torchvision's RandomCrop(size = H x W, padding): every image is padded on all sides by `padding`
/// pixels of value fill[C] and cut to H x W again at a random place. Throws ShapeError.
void random_crop(const Tensor& x, const Tensor& indices, std::int64_t padding, const Tensor& fill,
                 const AugmentKey& key);

/// torchvision's RandomHorizontalFlip: every image is mirrored left to right or, as often, not.
/// Throws ShapeError.
void random_horizontal_flip(const Tensor& x, const Tensor& indices, const AugmentKey& key);

}  // namespace lockstep
