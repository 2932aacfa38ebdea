#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/data/dataset.hpp>

namespace lockstep {

/// Some samples of another data set, renumbered (PyTorch's Subset). A batch's indices are those of
/// the whole set.
class Subset final : public Dataset {
 public:
  /// Throws InputError if there are none, or if one is not in the whole set.
  Subset(std::shared_ptr<const Dataset> whole, std::vector<std::int64_t> samples);

  [[nodiscard]] std::int64_t size() const noexcept override { return std::ssize(samples_); }
  [[nodiscard]] Shape sample_shape() const override { return whole_->sample_shape(); }
  [[nodiscard]] DType input_dtype() const noexcept override { return whole_->input_dtype(); }
  [[nodiscard]] std::span<const std::shared_ptr<const Dataset>> others() const noexcept override {
    return whole_->others();
  }
  [[nodiscard]] std::int64_t classes() const noexcept override { return whole_->classes(); }
  [[nodiscard]] Shape target_shape() const override { return whole_->target_shape(); }
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;
  void load_varied(std::span<const std::int64_t> indices, std::int64_t epoch,
                   Batch& batch) const override;
  [[nodiscard]] std::vector<std::int64_t> labels() const override;

  /// Their numbers in the whole set.
  [[nodiscard]] const std::vector<std::int64_t>& samples() const noexcept { return samples_; }

 private:
  /// The numbers of `indices` in the whole set; valid until the next call by the same thread.
  [[nodiscard]] std::span<const std::int64_t> in_whole(std::span<const std::int64_t> indices) const;

  std::shared_ptr<const Dataset> whole_;
  std::vector<std::int64_t> samples_;
};

/// Splits the numbers 0 to n-1 into two sorted parts: for training, and round(fraction n) of them
/// for validation. Counter-based random numbers choose, as a function of n alone: every run with
/// these data holds back the same samples. Throws InputError if a part would be empty.
struct ValidationSplit {
  std::vector<std::int64_t> train, validation;
};
[[nodiscard]] ValidationSplit split_for_validation(std::int64_t n, double fraction);

}  // namespace lockstep
