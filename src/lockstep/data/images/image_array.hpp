#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <lockstep/data/files/stored_array.hpp>
#include <lockstep/data/images/image_folder.hpp>

namespace lockstep {

/// The images in a folder and below it, in the order of their paths, as an array [N, C, H, W] of
/// numbers in [0, 255]: what a trained network predicts. They are cut as an ImageFolder's are.
class ImageArray final : public StoredArray {
 public:
  /// Throws InputError if the folder has no images.
  ImageArray(const std::filesystem::path& root, const ImageOptions& options);

  [[nodiscard]] const Shape& shape() const noexcept override { return shape_; }
  [[nodiscard]] bool integers() const noexcept override { return false; }
  [[nodiscard]] bool bytes() const noexcept override { return false; }
  [[nodiscard]] const std::string& description() const noexcept override { return description_; }
  void read(std::int64_t begin, std::int64_t end, std::span<float> out) const override;
  /// Numbers between bytes are no integers: these throw InputError.
  void read(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const override;
  void read(std::int64_t begin, std::int64_t end, std::span<std::uint8_t> out) const override;
  void expect_unchanged() const override;

 private:
  struct File {
    std::filesystem::path path;
    std::filesystem::file_time_type written;
  };
  ImageOptions options_;
  std::vector<File> files_;
  Shape shape_;
  std::string description_;
};

}  // namespace lockstep
