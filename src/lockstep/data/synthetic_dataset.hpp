#pragma once
#include <cstdint>

#include <memory>

#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {

class DeckTable;
struct DataOptions;

/// Generated images: each class has a random black and white pattern of 4 x 4 pixel cells, and each
/// image is its class's pattern with its own noise.
struct SyntheticOptions {
  std::int64_t samples = 2048;  ///< of the training set
  std::int64_t test_samples = 512;
  std::int64_t classes = 10;     ///< 2 to 256
  std::int64_t image_size = 28;  ///< height and width, in pixels
  std::int64_t channels = 1;     ///< channels; each has a pattern of its own
  double noise = 0.5;            ///< fraction of noise in a pixel: 0 pattern alone, 1 noise alone
  std::int64_t seed = 1;

  [[nodiscard]] Datasets make(const DataOptions& all, TargetKind kind, Sets wanted) const;
  [[nodiscard]] static TargetKind targets(const DataOptions&) { return TargetKind::classes; }
};
void declare(DeckTable& table, SyntheticOptions& options);

/// The generated data set: the same bytes on every rank and machine. Both splits share the patterns
/// but no image. Nothing is stored on disk. Throws InputError for options out of range.
[[nodiscard]] std::shared_ptr<const TensorDataset> make_synthetic(
    const SyntheticOptions& options, Split split,
    const Normalisation& normalisation = mnist_normalisation());

}  // namespace lockstep
