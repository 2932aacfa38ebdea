#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>

namespace lockstep {

class DeckTable;
struct DataOptions;
struct ImageCut;

/// torchvision's RandomResizedCrop.
struct RandomCut {
  std::vector<double> scale{0.08, 1.0};             ///< of the area that is cut out, of the image's
  std::vector<double> ratio{3.0 / 4.0, 4.0 / 3.0};  ///< of its width to its height
  std::uint64_t seed = 0;

  /// What a sample is made of in an epoch: a function of the two and the seed.
  [[nodiscard]] ImageCut operator()(std::int64_t height, std::int64_t width, std::int64_t size,
                                    std::int64_t sample, std::int64_t epoch) const;
};

/// How the files of an ImageFolder become samples.
struct ImageOptions {
  std::int64_t channels = 3;  ///< 3, or 1: grey
  std::int64_t size = 224;    ///< height and width of a sample, in pixels
  std::int64_t resize = 256;  ///< pixels of the shorter side before the centre is cut out
  std::int64_t threads = 4;   ///< that decode a batch
  /// Of load_varied; none: it does as load does.
  std::optional<RandomCut> random_cut = {};
};

/// Folders of images below data.path: train/ and val/ or test/, or one without these.
struct ImageFolderOptions {
  ImageOptions images;
  bool resized_crop = false;  ///< training images are cut by `random_cut`
  RandomCut random_cut;
  std::string test_path;  ///< the test set's folder; empty: val or test in data.path
  std::string listing;    ///< listing_hash() of the training set; empty: not known yet

  [[nodiscard]] Datasets make(const DataOptions& all, TargetKind kind, Sets wanted) const;
  [[nodiscard]] static TargetKind targets(const DataOptions&) { return TargetKind::classes; }
  void note(const Datasets& found);
};
void declare(DeckTable& table, ImageFolderOptions& options);

}  // namespace lockstep
