#pragma once
#include <cstdint>
#include <string>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/normalisation.hpp>

namespace lockstep {

/// Samples held in memory as they are stored (60,000 images of 28 x 28 bytes: 47 MB); numbers are
/// normalised as they are loaded.
class TensorDataset final : public Dataset {
 public:
  /// Both tensors are kept, not copied.
  /// features: u8 or f32 [N, ...]; see sample_shape_of.
  /// targets: integers [N], each a class in [0, classes); or, with classes = 0, f32 values [N,
  /// ...]. `name` stands for the data in messages. Throws InputError if there are no samples, the
  /// counts differ, a target is no class, or the features are of another dtype.
  TensorDataset(Tensor features, const Tensor& targets, std::int64_t classes,
                const Normalisation& normalisation, const std::string& name);

  /// Samples that are integers, i64 [N, ...], and reach the model as they are: [...] each.
  TensorDataset(Tensor indices, const Tensor& targets, std::int64_t classes,
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
  /// What both kinds of samples have in common. Throws InputError.
  void set_targets(const Tensor& targets, const std::string& name);

  Tensor features_, targets_;
  std::int64_t size_ = 0;
  Shape sample_shape_, target_shape_;
  std::int64_t classes_;
  ChannelScale scale_;  ///< of numbers
};

/// f32 [n, 0]: the targets, with classes = 0, of further inputs (StackedDataset), which have none.
[[nodiscard]] Tensor no_targets(std::int64_t n);

/// Shape of one sample of features [N, ...]: without N, but [1] for [N] and [1, H, W] for [N, H,
/// W].
[[nodiscard]] Shape sample_shape_of(const Shape& features);
/// Shape of one target of targets [N, ...].
[[nodiscard]] Shape target_shape_of(const Shape& targets);

/// Throws Error if one of `indices` is not in [0, size).
void expect_samples(std::span<const std::int64_t> indices, std::int64_t size);

/// Throws InputError if one of `labels`, the first of which belongs to sample `first`, is not in
/// [0, classes).
void expect_classes(std::span<const std::int64_t> labels, std::int64_t first, std::int64_t classes,
                    const std::string& name);

}  // namespace lockstep
