#include <lockstep/data/image_dataset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/gather.hpp>

namespace lockstep {

ImageDataset::ImageDataset(Tensor images, Tensor labels, std::int64_t classes,
                           Normalisation normalisation, const std::string& name)
    : images_(std::move(images)),
      labels_(std::move(labels)),
      classes_(classes),
      mean_(static_cast<float>(normalisation.mean)),
      std_(static_cast<float>(normalisation.std)) {
  if (images_.dims() != 3 || labels_.dims() != 1 || images_.numel() == 0) {
    throw InputError(fmt::format("{}: images {} and labels {} are not [N, H, W] and [N] with N > 0",
                                 name, describe(images_), describe(labels_)));
  }
  if (images_.size(0) != labels_.size(0)) {
    throw InputError(
        fmt::format("{}: {} images but {} labels. The files do not belong together: get fresh "
                    "copies of both.",
                    name, images_.size(0), labels_.size(0)));
  }
  const auto values = labels_.to_vector<std::uint8_t>();
  const auto bad = std::find_if(values.begin(), values.end(),
                                [&](std::uint8_t label) { return label >= classes_; });
  if (bad != values.end()) {
    throw InputError(fmt::format(
        "{}: label {} of sample {} is not in [0, {}). Is this another data set, or a damaged file?",
        name, *bad, bad - values.begin(), classes_));
  }
}

Shape ImageDataset::sample_shape() const { return {1, images_.size(1), images_.size(2)}; }

void ImageDataset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  for (const auto i : indices) {
    if (i < 0 || i >= size()) {
      throw Error(fmt::format("sample {} was asked of a data set of {}", i, size()));
    }
  }
  batch.reset(indices);
  gather_normalise(images_, batch.indices(), mean_, std_, batch.inputs());
  gather_labels(labels_, batch.indices(), batch.targets());
}

}  // namespace lockstep
