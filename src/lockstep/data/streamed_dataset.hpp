#pragma once
#include <memory>
#include <optional>

#include <lockstep/data/files/stored_samples.hpp>

namespace lockstep {

/// Samples that stay in their file and are read when a batch needs them: for data sets larger than
/// memory. A batch's samples are read in the order of the file; neighbours in both file and batch
/// come in one read. So a batch of b samples costs at most b reads, and decodes each chunk it
/// touches once. Chunks are cached across batches as far as the cache allows (data.cache_mib). The
/// bits equal those of load_samples.
class StreamedDataset final : public Dataset {
 public:
  /// `classes` is 0 for values. Without a normalisation samples are indices, i64, passed on
  /// unscaled. The classes are not checked: see expect_classes. Throws InputError if the
  /// normalisation does not fit, or indices are not stored as integers.
  StreamedDataset(const StoredSamples& samples, std::int64_t classes,
                  const std::optional<Normalisation>& normalisation);
  ~StreamedDataset() override;

  [[nodiscard]] std::int64_t size() const noexcept override;
  [[nodiscard]] Shape sample_shape() const override;
  [[nodiscard]] DType input_dtype() const noexcept override;
  [[nodiscard]] std::int64_t classes() const noexcept override;
  [[nodiscard]] Shape target_shape() const override;
  /// Also throws InputError if the file cannot be read, was changed since it was opened, or holds a
  /// number that is not finite.
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;
  [[nodiscard]] std::vector<std::int64_t> labels() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
