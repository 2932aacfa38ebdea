#pragma once
#include <cstdint>
#include <span>

#include <lockstep/data/images/image.hpp>

namespace lockstep {

/// Rows [top, top + height) and columns [left, left + width).
struct PixelBox {
  std::int64_t top = 0, left = 0, height = 0, width = 0;
};

/// What becomes of an image: `source` of it is resized to `height` x `width`, and `window` of that
/// is cut out.
struct ImageCut {
  PixelBox source;
  std::int64_t height = 0, width = 0;
  PixelBox window;
};

/// torchvision's Resize(shorter) and CenterCrop(size), with size <= shorter.
[[nodiscard]] ImageCut center_cut(std::int64_t height, std::int64_t width, std::int64_t shorter,
                                  std::int64_t size);

/// Writes [channels, window height, window width] of numbers in [0, 255], not rounded: PyTorch's
/// interpolate(mode = "bilinear", antialias = True), the filter of PIL's BILINEAR.
void cut_image(const Image& image, const ImageCut& cut, std::span<float> out);

}  // namespace lockstep
