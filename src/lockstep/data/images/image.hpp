#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace lockstep {

/// Pixels [height, width, channels], a byte each.
struct Image {
  std::int64_t height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> pixels = {};
};

/// A PNG or JPEG file, told by its first bytes, as torchvision's ImageFolder reads it (PIL, then
/// convert("RGB"), or convert("L") for channels = 1): of 16 bits the high byte is taken, palettes
/// are looked up, alpha is dropped, CMYK becomes RGB, the EXIF orientation and colour profiles are
/// not looked at. `channels` is 3, or 1 for grey. Throws InputError if the file cannot be read,
/// is neither PNG nor JPEG, is truncated or damaged, or has more than 2^27 pixels.
[[nodiscard]] Image read_image(const std::filesystem::path& file, std::int64_t channels);

/// By the extension of its name alone: .png, .jpg or .jpeg in any case.
[[nodiscard]] bool is_image_name(const std::filesystem::path& file);

namespace detail {

/// Of a whole file, in the colours it has: 1 or 3 channels. Throw InputError, which names no file.
[[nodiscard]] Image decode_png(std::span<const std::uint8_t> file);
[[nodiscard]] Image decode_jpeg(std::span<const std::uint8_t> file);

/// Throws InputError if an image is beyond 2^27 pixels.
void expect_pixels(std::int64_t height, std::int64_t width);

}  // namespace detail
}  // namespace lockstep
