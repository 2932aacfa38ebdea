#pragma once
#include <cstdint>

#include <memory>

#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {

class DeckTable;
struct DataOptions;

/// Images made from numbers: each class has a pattern of 4 x 4 pixel cells, black or white by coin
/// toss, and each image is its class's pattern under noise of its own.
struct SyntheticOptions {
  std::int64_t samples = 2048;  ///< of the training set
  std::int64_t test_samples = 512;
  std::int64_t classes = 10;     ///< 2 to 256
  std::int64_t image_size = 28;  ///< height and width, in pixels
  std::int64_t channels = 1;     ///< colours; each has a pattern of its own
  double noise = 0.5;            ///< share of noise in a pixel: 0 pattern alone, 1 noise alone
  std::int64_t seed = 1;

  [[nodiscard]] Datasets make(const DataOptions& all, TargetKind kind, Sets wanted) const;
  [[nodiscard]] static TargetKind targets(const DataOptions&) { return TargetKind::classes; }
};
void declare(DeckTable& table, SyntheticOptions& options);

/// The generated data set: the same bytes on every rank and machine; both splits share the
/// patterns but no image. Nothing on disk. Throws InputError for options out of their ranges.
[[nodiscard]] std::shared_ptr<const TensorDataset> make_synthetic(
    const SyntheticOptions& options, Split split, const Normalisation& normalisation = {});

}  // namespace lockstep
