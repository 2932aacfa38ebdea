#include <fmt/format.h>
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstring>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/data/images/image.hpp>

namespace lockstep {
namespace {

/// A file in memory, how far libpng has read it, and what it says of a fault.
struct PngReading {
  std::span<const std::uint8_t> file;
  std::size_t offset = 0;
  std::array<char, 256> message{};
};

/// libpng leaves by longjmp: none of the functions below it may own anything.
void png_failed(png_structp png, png_const_charp message) {
  auto& reading = *static_cast<PngReading*>(png_get_error_ptr(png));
  std::strncpy(reading.message.data(), message, reading.message.size() - 1);
  png_longjmp(png, 1);
}

void ignore_png_warning(png_structp /*png*/, png_const_charp /*message*/) {}

void read_png_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto& reading = *static_cast<PngReading*>(png_get_io_ptr(png));
  if (count > reading.file.size() - reading.offset) png_error(png, "the file is truncated");
  std::memcpy(out, reading.file.data() + reading.offset, count);
  reading.offset += count;
}

/// Owns what libpng allocates.
class PngDecoder {
 public:
  explicit PngDecoder(PngReading& reading)
      : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, png_failed,
                                    ignore_png_warning)),
        info_(png_ ? png_create_info_struct(png_) : nullptr) {
    if (info_) png_set_read_fn(png_, &reading, read_png_bytes);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  /// Both are false after an error.
  [[nodiscard]] bool read_header() noexcept {
    if (!info_) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, 0x7FFFFFFF, 0x7FFFFFFF);
    png_read_info(png_, info_);
    png_set_strip_16(png_);
    png_set_expand(png_);
    png_set_strip_alpha(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }
  [[nodiscard]] bool read_rows(std::uint8_t* pixels) noexcept {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    for (int pass = 0; pass < passes_; ++pass) {
      for (png_uint_32 y = 0; y < png_get_image_height(png_, info_); ++y)
        png_read_row(png_, pixels + y * row_bytes, nullptr);
    }
    png_read_end(png_, nullptr);
    return true;
  }
  [[nodiscard]] Image room() const {
    Image image{png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                png_get_channels(png_, info_)};
    detail::expect_pixels(image.height, image.width);
    image.pixels.resize(static_cast<std::size_t>(image.height) * png_get_rowbytes(png_, info_));
    return image;
  }

 private:
  png_structp png_;
  png_infop info_;
  int passes_ = 1;
};

}  // namespace

Image detail::decode_png(std::span<const std::uint8_t> file) {
  PngReading reading{.file = file};
  const auto damaged = [&] {
    return InputError(fmt::format(
        "it is a damaged PNG file ({}, at byte {} of {}). Get a fresh copy, or remove it.",
        reading.message.data(), reading.offset, file.size()));
  };
  PngDecoder decoder(reading);
  if (!decoder.read_header()) throw damaged();
  Image image = decoder.room();
  if (!decoder.read_rows(image.pixels.data())) throw damaged();
  return image;
}

}  // namespace lockstep
