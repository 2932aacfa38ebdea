#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <lockstep/data/tensor_dataset.hpp>

namespace lockstep {

class DeckTable;
struct DataOptions;

/// The four files in the folder data.path.
struct FashionMnistOptions {
  [[nodiscard]] static Datasets make(const DataOptions& all, TargetKind kind, Sets wanted);
  [[nodiscard]] static TargetKind targets(const DataOptions&) { return TargetKind::classes; }
};
inline void declare(DeckTable& /*table*/, FashionMnistOptions& /*options*/) {}

/// Fashion-MNIST (or MNIST) from a folder with train-images-idx3-ubyte, train-labels-idx1-ubyte,
/// t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each plain or as .gz (plain files win). Takes
/// the first `limit` samples; 0 is all. Throws InputError if a file is missing or unfit, or if
/// images and labels do not match.
[[nodiscard]] std::shared_ptr<const TensorDataset> load_fashion_mnist(
    const std::filesystem::path& folder, Split split,
    const Normalisation& normalisation = mnist_normalisation(), std::int64_t limit = 0);

/// The folder meant by `data.path`: itself, or for "auto" $LOCKSTEP_DATA if set, else the first
/// datasets/fashion-mnist with all four files in $XDG_DATA_DIRS (default /usr/local/share and
/// /usr/share). Throws InputError with the places searched, the package and the files.
[[nodiscard]] std::filesystem::path find_fashion_mnist(const std::string& path);

}  // namespace lockstep
