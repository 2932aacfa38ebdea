#include <fmt/format.h>

#include <array>
#include <csetjmp>
#include <cstdio>

#include <jerror.h>
#include <jpeglib.h>

#include <lockstep/base/error.hpp>
#include <lockstep/data/images/image.hpp>

namespace lockstep {
namespace {

/// What libjpeg calls at a fault. `base` comes first: libjpeg knows no more.
struct JpegFaults {
  jpeg_error_mgr base{};
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

[[noreturn]] void jpeg_failed(j_common_ptr jpeg) {
  auto& faults = *reinterpret_cast<JpegFaults*>(jpeg->err);
  faults.base.format_message(jpeg, faults.message.data());
  std::longjmp(faults.jump, 1);
}

/// libjpeg goes on with made-up pixels where data are missing; other warnings harm no pixel.
void jpeg_warned(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  const int code = jpeg->err->msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE)
    jpeg_failed(jpeg);
}

/// Owns what libjpeg allocates.
class JpegDecoder {
 public:
  explicit JpegDecoder(JpegFaults& faults) : faults_(faults) {
    jpeg_.err = jpeg_std_error(&faults.base);
    faults.base.error_exit = jpeg_failed;
    faults.base.emit_message = jpeg_warned;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&jpeg_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Both are false after an error.
  [[nodiscard]] bool read_header(std::span<const std::uint8_t> file) noexcept {
    if (setjmp(faults_.jump) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    jpeg_mem_src(&jpeg_, file.data(), file.size());
    jpeg_read_header(&jpeg_, TRUE);
    const bool four = jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK;
    const bool grey = jpeg_.jpeg_color_space == JCS_GRAYSCALE;
    jpeg_.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(&jpeg_);
    return true;
  }
  [[nodiscard]] bool read_rows(std::uint8_t* pixels) noexcept {
    if (setjmp(faults_.jump) != 0) return false;
    jpeg_start_decompress(&jpeg_);
    const std::size_t row_bytes =
        std::size_t{jpeg_.output_width} * static_cast<std::size_t>(jpeg_.output_components);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      JSAMPROW row = pixels + jpeg_.output_scanline * row_bytes;
      jpeg_read_scanlines(&jpeg_, &row, 1);
    }
    jpeg_finish_decompress(&jpeg_);
    return true;
  }
  [[nodiscard]] Image room() const {
    Image image{jpeg_.output_height, jpeg_.output_width, jpeg_.output_components};
    detail::expect_pixels(image.height, image.width);
    image.pixels.resize(static_cast<std::size_t>(image.height * image.width * image.channels));
    return image;
  }
  /// Adobe's programs store CMYK inverted.
  [[nodiscard]] bool inverted() const { return jpeg_.saw_Adobe_marker != FALSE; }

 private:
  JpegFaults& faults_;
  jpeg_decompress_struct jpeg_{};
};

Image rgb_of_cmyk(const Image& cmyk, bool inverted) {
  Image rgb{cmyk.height, cmyk.width, 3};
  rgb.pixels.resize(cmyk.pixels.size() / 4 * 3);
  const auto light = [&](std::uint8_t ink) { return inverted ? ink : 255U - ink; };
  for (std::size_t i = 0; i < rgb.pixels.size() / 3; ++i) {
    const std::uint8_t* inks = &cmyk.pixels[4 * i];
    for (std::size_t c = 0; c < 3; ++c)
      rgb.pixels[3 * i + c] =
          static_cast<std::uint8_t>((light(inks[c]) * light(inks[3]) + 127U) / 255U);
  }
  return rgb;
}

}  // namespace

Image detail::decode_jpeg(std::span<const std::uint8_t> file) {
  JpegFaults faults;
  const auto damaged = [&] {
    return InputError(fmt::format("it is a damaged JPEG file ({}). Get a fresh copy, or remove it.",
                                  faults.message.data()));
  };
  JpegDecoder decoder(faults);
  if (!decoder.read_header(file)) throw damaged();
  Image image = decoder.room();
  if (!decoder.read_rows(image.pixels.data())) throw damaged();
  return image.channels == 4 ? rgb_of_cmyk(image, decoder.inverted()) : image;
}

}  // namespace lockstep
