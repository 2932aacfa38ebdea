#include <lockstep/data/batches/augment.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/augment.hpp>

namespace lockstep {

RandomCrop::RandomCrop(std::int64_t padding, const std::vector<float>& fill, std::uint64_t seed)
    : padding_(padding), fill_(Tensor::from(fill, {std::ssize(fill)})), seed_(seed) {}

void RandomCrop::apply(const Batch& batch, std::int64_t epoch) const {
  random_crop(batch.inputs(), batch.indices(), padding_, fill_,
              {seed_, static_cast<std::uint32_t>(epoch)});
}

void RandomHorizontalFlip::apply(const Batch& batch, std::int64_t epoch) const {
  random_horizontal_flip(batch.inputs(), batch.indices(),
                         {seed_, static_cast<std::uint32_t>(epoch)});
}

BatchTransforms make_augmentation(const AugmentOptions& options, const Shape& sample,
                                  std::vector<float> fill, std::uint64_t seed) {
  BatchTransforms transforms;
  if (options.crop_padding == 0 && !options.flip) return transforms;
  if (sample.dims() != 3) {
    throw InputError(
        "data.augment_crop_padding and data.augment_flip need images [C, H, W], not samples of "
        "shape " +
        to_string(sample) + ". Leave them out.");
  }
  if (options.crop_padding > 0) {
    if (fill.size() == 1) fill.resize(static_cast<std::size_t>(sample[0]), fill.front());
    transforms.push_back(std::make_shared<RandomCrop>(options.crop_padding, fill, seed));
  }
  if (options.flip) transforms.push_back(std::make_shared<RandomHorizontalFlip>(seed));
  return transforms;
}

}  // namespace lockstep
