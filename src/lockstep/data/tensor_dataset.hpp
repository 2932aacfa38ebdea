#pragma once
#include <cstdint>
#include <string>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/normalisation.hpp>

namespace lockstep {

/// Samples in memory in their stored form (60,000 images of 28 x 28 bytes: 47 MB). Numbers are
/// normalised as they are loaded.
class TensorDataset final : public Dataset {
 public:
  /// Both tensors are kept, not copied. features: u8 or f32 [N, ...]; see sample_shape_of. targets:
  /// integers [N], each a class in [0, classes); or, with classes = 0, f32 values [N, ...]. `name`
  /// names the data in messages. Throws InputError if there are no samples, the counts differ, a
  /// target is not a class, or the features have another dtype.
  TensorDataset(Tensor features, const Tensor& targets, std::int64_t classes,
                const Normalisation& normalisation, const std::string& name);

  /// The same without normalisation: f32 as it is, bytes / 255; or integers, i64 [N, ...], passed
  /// to the model as integers: [...] each.
  TensorDataset(Tensor features, const Tensor& targets, std::int64_t classes,
                const std::string& name);

  [[nodiscard]] std::int64_t size() const noexcept override { return size_; }
  [[nodiscard]] Shape sample_shape() const override { return sample_shape_; }
  [[nodiscard]] DType input_dtype() const noexcept override {
    return features_.dtype() == DType::i64 ? DType::i64 : DType::f32;
  }
  [[nodiscard]] std::int64_t classes() const noexcept override { return classes_; }
  [[nodiscard]] Shape target_shape() const override { return target_shape_; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;
  [[nodiscard]] std::vector<std::int64_t> labels() const override;

 private:
  /// Features that are numbers. Throws InputError.
  void set_normalisation(const Normalisation& normalisation, const std::string& name);
  /// Checks common to both kinds of samples. Throws InputError.
  void set_targets(const Tensor& targets, const std::string& name);

  Tensor features_, targets_;
  std::int64_t size_ = 0;
  Shape sample_shape_, target_shape_;
  std::int64_t classes_;
  ChannelScale scale_;  ///< of numbers
};

/// f32 [n, 0]: targets of further inputs (StackedDataset), which have none; with classes = 0.
[[nodiscard]] Tensor no_targets(std::int64_t n);

/// Shape of one sample of features [N, ...]: without N, but [1] for [N] and [1, H, W] for [N, H,
/// W].
[[nodiscard]] Shape sample_shape_of(const Shape& features);
/// Shape of one target of targets [N, ...].
[[nodiscard]] Shape target_shape_of(const Shape& targets);

/// Throws Error if one of `indices` is not in [0, size).
void expect_samples(std::span<const std::int64_t> indices, std::int64_t size);

/// Throws InputError if one of `labels` is not in [0, classes); the first belongs to sample
/// `first`.
void expect_classes(std::span<const std::int64_t> labels, std::int64_t first, std::int64_t classes,
                    const std::string& name);

}  // namespace lockstep
