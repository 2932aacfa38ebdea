#include <lockstep/data/images/image.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <string>
#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/base/lower_case.hpp>

namespace lockstep {
namespace {

constexpr std::array<std::uint8_t, 8> png_signature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
constexpr std::array<std::uint8_t, 3> jpeg_signature{0xFF, 0xD8, 0xFF};

template <std::size_t n>
bool begins_with(std::span<const std::uint8_t> file, const std::array<std::uint8_t, n>& signature) {
  return file.size() >= n && std::equal(signature.begin(), signature.end(), file.begin());
}

std::vector<std::uint8_t> bytes_of(const std::filesystem::path& file) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(file, failed);
  std::ifstream stream(file, std::ios::binary);
  if (failed || !stream)
    throw InputError("it cannot be opened. Check that it is there, and its permissions.");
  std::vector<std::uint8_t> bytes(size);
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (static_cast<std::uintmax_t>(stream.gcount()) != size)
    throw InputError("reading it failed. Check the file system, or get a fresh copy.");
  return bytes;
}

Image decode(std::span<const std::uint8_t> file) {
  if (begins_with(file, png_signature)) return detail::decode_png(file);
  if (begins_with(file, jpeg_signature)) return detail::decode_jpeg(file);
  throw InputError(file.empty() ? "it is empty. Get a fresh copy, or remove it."
                                : "it is neither PNG nor JPEG. Convert it, or remove it.");
}

/// ITU-R 601-2, in PIL's integers.
Image grey_of(const Image& colour) {
  Image grey{colour.height, colour.width, 1};
  grey.pixels.resize(colour.pixels.size() / 3);
  for (std::size_t i = 0; i < grey.pixels.size(); ++i) {
    const std::uint8_t* rgb = &colour.pixels[3 * i];
    grey.pixels[i] = static_cast<std::uint8_t>(
        (rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16U);
  }
  return grey;
}

Image colour_of(const Image& grey) {
  Image colour{grey.height, grey.width, 3};
  colour.pixels.resize(3 * grey.pixels.size());
  for (std::size_t i = 0; i < colour.pixels.size(); ++i) colour.pixels[i] = grey.pixels[i / 3];
  return colour;
}

}  // namespace

void detail::expect_pixels(std::int64_t height, std::int64_t width) {
  constexpr std::int64_t most = std::int64_t{1} << 27U;
  if (height > 0 && width > 0 && height <= most / width) return;
  throw InputError(fmt::format(
      "it has {} x {} pixels, but 1 to {} can be read. Make it smaller, or get a fresh copy.",
      height, width, most));
}

Image read_image(const std::filesystem::path& file, std::int64_t channels) {
  try {
    Image image = decode(bytes_of(file));
    if (image.channels == channels) return image;
    return channels == 1 ? grey_of(image) : colour_of(image);
  } catch (const InputError& error) {
    throw InputError(fmt::format("image file {}: {}", file.string(), error.what()));
  }
}

bool is_image_name(const std::filesystem::path& file) {
  const std::string extension = lower_case(file.extension().string());
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

}  // namespace lockstep
