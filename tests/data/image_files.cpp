#include <data/image_files.hpp>

#include <cstdio>
#include <memory>
#include <stdexcept>

#include <jpeglib.h>
#include <png.h>

namespace lockstep::test {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using OpenFile = std::unique_ptr<std::FILE, Close>;

OpenFile create(const std::filesystem::path& path) {
  std::filesystem::create_directories(path.parent_path());
  OpenFile file(std::fopen(path.c_str(), "wb"));
  if (!file) throw std::runtime_error("cannot create " + path.string());
  return file;
}

}  // namespace

void write_png(const std::filesystem::path& path, std::int64_t height, std::int64_t width,
               const std::vector<std::uint8_t>& bytes, const PngForm& form) {
  const OpenFile file = create(path);
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_init_io(png, file.get());
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               form.bits, form.color_type, form.interlaced ? PNG_INTERLACE_ADAM7 : 0, 0, 0);
  std::vector<png_color> colors;
  for (std::size_t i = 0; i + 2 < form.palette.size(); i += 3)
    colors.push_back({form.palette[i], form.palette[i + 1], form.palette[i + 2]});
  if (!colors.empty()) png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
  png_write_info(png, info);
  std::vector<std::uint8_t> copy = bytes;
  std::vector<png_bytep> rows;
  const std::size_t row_bytes = png_get_rowbytes(png, info);
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y)
    rows.push_back(copy.data() + y * row_bytes);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
}

void write_jpeg(const std::filesystem::path& path, std::int64_t height, std::int64_t width,
                int channels, const std::vector<std::uint8_t>& bytes) {
  const OpenFile file = create(path);
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr faults{};
  jpeg.err = jpeg_std_error(&faults);
  jpeg_create_compress(&jpeg);
  jpeg_stdio_dest(&jpeg, file.get());
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  jpeg.input_components = channels;
  jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, 100, TRUE);
  jpeg.comp_info[0].h_samp_factor = jpeg.comp_info[0].v_samp_factor = 1;
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<std::uint8_t> copy = bytes;
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = copy.data() + static_cast<std::size_t>(jpeg.next_scanline) *
                                     static_cast<std::size_t>(width * channels);
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
}

}  // namespace lockstep::test
