#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>
#include <lockstep/data/images/image_options.hpp>
#include <lockstep/data/normalisation.hpp>

namespace lockstep {

/// The image files in a folder and in those below it, in the order of their paths, hidden ones left
/// out. Throws InputError if a folder cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> images_below(const std::filesystem::path& folder);

/// torchvision's ImageFolder: root/class/name.png, .jpg or .jpeg, in folders below a class too. A
/// sample is resized and cut in its centre (center_cut), then normalised. Files are read and
/// decoded when a batch needs them, by as many threads as the options say; of the images no more
/// than one a thread is in memory. Decoders allocate, so load() does.
class ImageFolder final : public Dataset {
 public:
  /// Classes are `class_names`, in this order, or if empty the folders of `root` by name. The
  /// samples are in the order of the classes, then of their paths; `limit` above 0 takes that many
  /// of them, evenly spread. Throws InputError if there are none, a folder is no class, or has no
  /// images, or options do not fit each other.
  ImageFolder(const std::filesystem::path& root, const ImageOptions& options,
              const Normalisation& normalisation, std::vector<std::string> class_names = {},
              std::int64_t limit = 0);

  [[nodiscard]] std::int64_t size() const noexcept override { return std::ssize(files_); }
  [[nodiscard]] Shape sample_shape() const override {
    return {options_.channels, options_.size, options_.size};
  }
  [[nodiscard]] std::int64_t classes() const noexcept override { return std::ssize(class_names_); }
  /// Throws InputError also for a file that read_image refuses.
  void load(std::span<const std::int64_t> indices, Batch& batch) const override;
  void load_varied(std::span<const std::int64_t> indices, std::int64_t epoch,
                   Batch& batch) const override;
  [[nodiscard]] std::vector<std::int64_t> labels() const override;

  [[nodiscard]] const std::vector<std::string>& class_names() const noexcept {
    return class_names_;
  }
  /// A hash of the samples' paths below root, in their order.
  [[nodiscard]] std::string listing_hash() const;

 private:
  struct File {
    std::filesystem::path path;  ///< below root_
    std::int64_t label = 0;
  };
  void find_classes();
  void find_files(std::int64_t label);
  /// cut(image, sample) says what becomes of an image.
  template <class Cut>
  void load_cut(std::span<const std::int64_t> indices, Batch& batch, const Cut& cut) const;

  std::filesystem::path root_;
  ImageOptions options_;
  ChannelScale scale_;
  std::vector<std::string> class_names_;
  std::vector<File> files_;
};

}  // namespace lockstep
