#pragma once
#include <memory>
#include <optional>

#include <lockstep/data/files/stored_samples.hpp>

namespace lockstep {

/// Samples that stay in their file and are read when a batch needs them: for data sets larger than
/// memory. The samples of a batch are read in the order of the file; neighbours that also stand
/// side by side in the batch come in one read. So a batch of b samples costs at most b reads, and
/// of a chunked data set decodes each chunk it touches once; chunks are kept from batch to batch as
/// far as the cache goes (data.cache_mib). Same bits as load_samples.
class StreamedDataset final : public Dataset {
 public:
  /// `classes` is 0 for values. Without a normalisation samples are indices: i64, as they are. The
  /// classes are not checked: see expect_classes. Throws InputError if the normalisation does not
  /// fit, or indices are not stored as integers.
  StreamedDataset(const StoredSamples& samples, std::int64_t classes,
                  const std::optional<Normalisation>& normalisation);
  ~StreamedDataset() override;

  [[nodiscard]] std::int64_t size() const noexcept override;
  [[nodiscard]] Shape sample_shape() const override;
  [[nodiscard]] DType input_dtype() const noexcept override;
  [[nodiscard]] std::int64_t classes() const noexcept override;
  [[nodiscard]] Shape target_shape() const override;
  /// Throws InputError also if the file cannot be read, was changed since it was opened, or holds a
  /// number that is not finite.
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;
  [[nodiscard]] std::vector<std::int64_t> labels() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
