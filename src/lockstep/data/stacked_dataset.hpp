#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/data/dataset.hpp>

namespace lockstep {

/// Samples of several input tensors (PyTorch's StackDataset): those of `first`, which also gives
/// the target, and the inputs that each of `others` has under the same number. A batch has them as
/// inputs(0), inputs(1), ...; augmentation changes the first.
class StackedDataset final : public Dataset {
 public:
  /// Targets of `others` are ignored: they may be no_targets(). Throws InputError if `others` is
  /// empty, the counts differ, or one is stacked itself.
  StackedDataset(std::shared_ptr<const Dataset> first,
                 std::vector<std::shared_ptr<const Dataset>> others);

  [[nodiscard]] std::int64_t size() const noexcept override { return first_->size(); }
  [[nodiscard]] Shape sample_shape() const override { return first_->sample_shape(); }
  [[nodiscard]] DType input_dtype() const noexcept override { return first_->input_dtype(); }
  [[nodiscard]] std::span<const std::shared_ptr<const Dataset>> others() const noexcept override {
    return others_;
  }
  [[nodiscard]] std::int64_t classes() const noexcept override { return first_->classes(); }
  [[nodiscard]] Shape target_shape() const override { return first_->target_shape(); }
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;
  void load_varied(std::span<const std::int64_t> indices, std::int64_t epoch,
                   Batch& batch) const override;
  [[nodiscard]] std::vector<std::int64_t> labels() const override { return first_->labels(); }

 private:
  std::shared_ptr<const Dataset> first_;
  std::vector<std::shared_ptr<const Dataset>> others_;
};

}  // namespace lockstep
