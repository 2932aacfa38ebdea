#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/resample/pad.hpp>

// Other extents of images and sequences, on the host.

namespace lockstep {

/// Pads x by `amounts` = (before, after) of the last dimension, then of the one before it, and so
/// on: PyTorch's order. constant pads with `value`, and crops for negative amounts; the others take
/// at most the last three dimensions, reflect with less than the extent, circular with at most the
/// extent. Throws ShapeError for amounts that do not fit.
[[nodiscard]] Variable pad(const Operand& x, std::span<const std::int64_t> amounts,
                           PadMode mode = PadMode::constant, double value = 0.0);
[[nodiscard]] inline Variable pad(const Operand& x, std::initializer_list<std::int64_t> amounts,
                                  PadMode mode = PadMode::constant, double value = 0.0) {
  return pad(x, std::span(amounts.begin(), amounts.size()), mode, value);
}

enum class Interpolation : std::uint8_t { nearest, linear, bilinear, trilinear, bicubic, area };

/// x[N,C,L], [N,C,H,W] or [N,C,D,H,W] resized to one extent per dimension or one for all; linear is
/// for [N,C,L], bilinear and bicubic (Keys' weights, a = -3/4) for [N,C,H,W], trilinear for
/// [N,C,D,H,W]; area is adaptive_avg_pool. align_corners keeps the corners' values at the corners;
/// nearest and area do not support it. Throws ShapeError for sizes that do not fit, and for an x
/// without elements behind N and C.
[[nodiscard]] Variable interpolate(const Operand& x, std::span<const std::int64_t> size,
                                   Interpolation mode = Interpolation::nearest,
                                   bool align_corners = false);
[[nodiscard]] inline Variable interpolate(const Operand& x,
                                          std::initializer_list<std::int64_t> size,
                                          Interpolation mode = Interpolation::nearest,
                                          bool align_corners = false) {
  return interpolate(x, std::span(size.begin(), size.size()), mode, align_corners);
}
[[nodiscard]] inline Variable interpolate(const Operand& x, std::int64_t size,
                                          Interpolation mode = Interpolation::nearest,
                                          bool align_corners = false) {
  return interpolate(x, std::span(&size, 1), mode, align_corners);
}
/// The same by a factor for each extent, or one for all; sizes are rounded down.
[[nodiscard]] Variable interpolate_by(const Operand& x, std::span<const double> scale_factor,
                                      Interpolation mode = Interpolation::nearest,
                                      bool align_corners = false);
[[nodiscard]] inline Variable interpolate_by(const Operand& x,
                                             std::initializer_list<double> scale_factor,
                                             Interpolation mode = Interpolation::nearest,
                                             bool align_corners = false) {
  return interpolate_by(x, std::span(scale_factor.begin(), scale_factor.size()), mode,
                        align_corners);
}
[[nodiscard]] inline Variable interpolate_by(const Operand& x, double scale_factor,
                                             Interpolation mode = Interpolation::nearest,
                                             bool align_corners = false) {
  return interpolate_by(x, std::span(&scale_factor, 1), mode, align_corners);
}

/// x[..., C r^2, H, W] -> [..., C, H r, W r] (Shi et al. 2016, arXiv:1609.05158), and back.
[[nodiscard]] Variable pixel_shuffle(const Operand& x, std::int64_t upscale_factor);
[[nodiscard]] Variable pixel_unshuffle(const Operand& x, std::int64_t downscale_factor);

}  // namespace lockstep
