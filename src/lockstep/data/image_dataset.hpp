#pragma once
#include <filesystem>
#include <string>

#include <lockstep/data/dataset.hpp>

namespace lockstep {

/// How bytes become inputs: (byte / 255 - mean) / std, each operation in float32.
struct Normalisation {
  double mean = 0.1307;
  double std = 0.3081;
};

/// Labelled grey images kept as bytes (60,000 of 28 x 28: 47 MB) and normalised as they are loaded.
class ImageDataset final : public Dataset {
 public:
  /// images u8 [N, H, W], labels u8 [N], both kept (not copied); samples are [1, H, W].
  /// `name` stands for the data in messages. Throws InputError if there are no images, the counts
  /// differ, or a label is not below `classes`.
  ImageDataset(Tensor images, Tensor labels, std::int64_t classes, Normalisation normalisation,
               const std::string& name);

  [[nodiscard]] std::int64_t size() const noexcept override { return labels_.numel(); }
  [[nodiscard]] Shape sample_shape() const override;
  [[nodiscard]] std::int64_t classes() const noexcept override { return classes_; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;

 private:
  Tensor images_, labels_;
  std::int64_t classes_;
  float mean_, std_;
};

/// The two halves of a data set in MNIST's format.
enum class Split { train, test };

/// Fashion-MNIST (or MNIST) from a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or with .gz (the plain one is
/// taken where both are there). The first `limit` samples; 0 is all.
/// Throws InputError if a file is missing or unfit, or images and labels do not belong together.
[[nodiscard]] std::shared_ptr<const ImageDataset> load_fashion_mnist(
    const std::filesystem::path& folder, Split split, Normalisation normalisation = {},
    std::int64_t limit = 0);

/// The folder that `data.path` stands for: itself, or for "auto" $LOCKSTEP_DATA if set, else the
/// first datasets/fashion-mnist with all four files in $XDG_DATA_DIRS (default /usr/local/share and
/// /usr/share). Throws InputError saying where it looked, and naming the package and the files.
[[nodiscard]] std::filesystem::path find_fashion_mnist(const std::string& path);

}  // namespace lockstep
