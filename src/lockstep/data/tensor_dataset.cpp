#include <lockstep/data/tensor_dataset.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {

Tensor no_targets(std::int64_t n) { return Tensor::zeros({n, 0}); }

Shape target_shape_of(const Shape& targets) {
  return Shape(std::span(targets.begin(), targets.end()).subspan(1));
}

Shape sample_shape_of(const Shape& features) {
  if (features.dims() == 1) return {1};
  if (features.dims() == 3) return {1, features[1], features[2]};
  return target_shape_of(features);
}

void expect_samples(std::span<const std::int64_t> indices, std::int64_t size) {
  for (const auto i : indices) {
    if (i < 0 || i >= size)
      throw Error(fmt::format("sample {} was requested from a data set of {}", i, size));
  }
}

void expect_classes(std::span<const std::int64_t> labels, std::int64_t first, std::int64_t classes,
                    const std::string& name) {
  const auto bad = std::ranges::find_if(
      labels, [&](std::int64_t label) { return label < 0 || label >= classes; });
  if (bad == labels.end()) return;
  throw InputError(fmt::format(
      "{}: label {} of sample {} is not in [0, {}). Is this another data set, or a damaged file?",
      name, *bad, first + (bad - labels.begin()), classes));
}

TensorDataset::TensorDataset(Tensor features, const Tensor& targets, std::int64_t classes,
                             const Normalisation& normalisation, const std::string& name)
    : features_(std::move(features)), classes_(classes) {
  set_targets(targets, name);
  if (features_.dtype() != DType::u8 && features_.dtype() != DType::f32) {
    throw InputError(fmt::format(
        "{}: features {} cannot be normalised. Convert them to f32, or, if they are indices, to "
        "i64 and give no normalisation.",
        name, describe(features_)));
  }
  set_normalisation(normalisation, name);
}

TensorDataset::TensorDataset(Tensor features, const Tensor& targets, std::int64_t classes,
                             const std::string& name)
    : features_(std::move(features)), classes_(classes) {
  set_targets(targets, name);
  if (features_.dtype() == DType::i64) {
    sample_shape_ = target_shape_of(features_.shape());
    return;
  }
  if (features_.dtype() != DType::u8 && features_.dtype() != DType::f32) {
    throw InputError(fmt::format(
        "{}: features {} are neither f32 nor u8. Convert them to f32, or, if they are indices, to "
        "i64.",
        name, describe(features_)));
  }
  set_normalisation({}, name);
}

void TensorDataset::set_normalisation(const Normalisation& normalisation, const std::string& name) {
  sample_shape_ = sample_shape_of(features_.shape());
  scale_ = channel_scale(normalisation, sample_shape_, features_.dtype(), name);
}

void TensorDataset::set_targets(const Tensor& targets, const std::string& name) {
  const bool labels = classes_ > 0;
  targets_ = targets.to(labels ? DType::i64 : DType::f32);
  if (features_.dims() == 0 || features_.numel() == 0 || targets_.dims() == 0 ||
      (labels && targets_.dims() != 1)) {
    throw InputError(fmt::format("{}: {} {} and {} {} are not [N, ...] and [N{}] with N > 0", name,
                                 labels ? "images" : "features", describe(features_),
                                 labels ? "labels" : "targets", describe(targets),
                                 labels ? "" : ", ..."));
  }
  size_ = features_.size(0);
  if (size_ != targets_.size(0)) {
    throw InputError(
        fmt::format("{}: {} samples but {} {}. They do not match: get fresh copies of both.", name,
                    size_, targets_.size(0), labels ? "labels" : "targets"));
  }
  if (labels) expect_classes(targets_.to_vector<std::int64_t>(), 0, classes_, name);
  target_shape_ = target_shape_of(targets_.shape());
}

std::vector<std::int64_t> TensorDataset::labels() const {
  return targets_.to_vector<std::int64_t>();
}

void TensorDataset::load(std::span<const std::int64_t> indices, Batch& batch) const {
  expect_samples(indices, size());
  batch.reset(indices);
  if (input_dtype() == DType::i64) {
    gather_rows(features_, batch.indices(), batch.inputs());
  } else {
    gather_normalise(features_, batch.indices(), scale_, batch.inputs());
  }
  gather_rows(targets_, batch.indices(), batch.targets());
}

}  // namespace lockstep
