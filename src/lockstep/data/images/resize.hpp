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

/// torchvision's RandomResizedCrop.
struct RandomCut {
  std::vector<double> scale{0.08, 1.0};             ///< of the area that is cut out, of the image's
  std::vector<double> ratio{3.0 / 4.0, 4.0 / 3.0};  ///< of its width to its height
  std::uint64_t seed = 0;

  /// What a sample is made of in an epoch: a function of the two and the seed.
  [[nodiscard]] ImageCut operator()(std::int64_t height, std::int64_t width, std::int64_t size,
                                    std::int64_t sample, std::int64_t epoch) const;
};

/// Writes [channels, window height, window width] of numbers in [0, 255], not rounded: PyTorch's
/// interpolate(mode = "bilinear", antialias = True), the filter of PIL's BILINEAR.
void cut_image(const Image& image, const ImageCut& cut, std::span<float> out);

}  // namespace lockstep
