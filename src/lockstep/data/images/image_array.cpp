#include <lockstep/data/images/image_array.hpp>

#include <fmt/format.h>

#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/data/images/in_threads.hpp>
#include <lockstep/data/images/resize.hpp>

namespace lockstep {

namespace fs = std::filesystem;

ImageArray::ImageArray(const fs::path& root, const ImageOptions& options) : options_(options) {
  std::error_code unknown;
  for (fs::path& path : images_below(root)) {
    const auto written = fs::last_write_time(path, unknown);
    files_.push_back({std::move(path), written});
  }
  if (files_.empty()) {
    throw InputError(
        fmt::format("the folder {} has no images (.png, .jpg, .jpeg).", root.string()));
  }
  shape_ = {std::ssize(files_), options_.channels, options_.size, options_.size};
  description_ = fmt::format("the images in {}, {}", root.string(), to_string(shape_));
}

void ImageArray::read(std::int64_t begin, std::int64_t end, std::span<float> out) const {
  expect_rows(begin, end, std::ssize(out));
  const auto each = static_cast<std::size_t>(row_elements());
  detail::in_threads(
      static_cast<std::size_t>(end - begin), static_cast<std::size_t>(options_.threads),
      [&](std::size_t i) {
        const auto& path = files_[static_cast<std::size_t>(begin) + i].path;
        const Image image = read_image(path, options_.channels);
        cut_image(image, center_cut(image.height, image.width, options_.resize, options_.size),
                  out.subspan(i * each, each));
      });
}

void ImageArray::read(std::int64_t, std::int64_t, std::span<std::int64_t>) const {
  throw InputError(fmt::format("{} are no integers.", description_));
}

void ImageArray::read(std::int64_t, std::int64_t, std::span<std::uint8_t>) const {
  throw InputError(fmt::format("{} are no integers.", description_));
}

void ImageArray::expect_unchanged() const {
  for (const auto& [path, written] : files_) {
    std::error_code unknown;
    if (fs::last_write_time(path, unknown) == written) continue;
    throw InputError(fmt::format(
        "image file {} was written to while it was read. Begin again when it is complete.",
        path.string()));
  }
}

}  // namespace lockstep
