#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace lockstep::test {

/// How a PNG file is to be written.
struct PngForm {
  int color_type = 2;  ///< libpng's: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  int bits = 8;        ///< of a number; 16: high byte first
  bool interlaced = false;
  std::vector<std::uint8_t> palette = {};  ///< RGB each
};

/// Rows of bytes as they are.
void write_png(const std::filesystem::path& file, std::int64_t height, std::int64_t width,
               const std::vector<std::uint8_t>& bytes, const PngForm& form = {});

/// Quality 100, without subsampling. `channels`: 1 grey, 3 RGB, 4 CMYK as Adobe's programs store
/// it, inverted.
void write_jpeg(const std::filesystem::path& file, std::int64_t height, std::int64_t width,
                int channels, const std::vector<std::uint8_t>& bytes);

}  // namespace lockstep::test
