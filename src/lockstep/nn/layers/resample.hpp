#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional/resample.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/extents.hpp>

namespace lockstep::nn {

/// x[N, C, ...] of `dims` spatial dimensions, padded: by the same number everywhere, or by (before,
/// after) of the last dimension, then of the one before it ...
template <PadMode mode, std::size_t dims>
class PadLayer : public Module {
 public:
  explicit PadLayer(const Extents<2 * dims>& padding) : amounts_(padding) {}
  Variable forward(const Variable& x) override { return padded(x, 0.0); }

 protected:
  [[nodiscard]] Variable padded(const Variable& x, double value) const {
    return pad(x, amounts_, mode, value);
  }

 private:
  Extents<2 * dims> amounts_;
};

/// torch.nn.ConstantPad1d, 2d and 3d.
template <std::size_t dims>
class ConstantPad : public PadLayer<PadMode::constant, dims> {
 public:
  ConstantPad(const Extents<2 * dims>& padding, double value)
      : PadLayer<PadMode::constant, dims>(padding), value_(value) {}
  Variable forward(const Variable& x) override { return this->padded(x, value_); }

 private:
  double value_;
};

using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;
using ZeroPad1d = PadLayer<PadMode::constant, 1>;
using ZeroPad2d = PadLayer<PadMode::constant, 2>;
using ZeroPad3d = PadLayer<PadMode::constant, 3>;
using ReflectionPad1d = PadLayer<PadMode::reflect, 1>;
using ReflectionPad2d = PadLayer<PadMode::reflect, 2>;
using ReflectionPad3d = PadLayer<PadMode::reflect, 3>;
using ReplicationPad1d = PadLayer<PadMode::replicate, 1>;
using ReplicationPad2d = PadLayer<PadMode::replicate, 2>;
using ReplicationPad3d = PadLayer<PadMode::replicate, 3>;
using CircularPad1d = PadLayer<PadMode::circular, 1>;
using CircularPad2d = PadLayer<PadMode::circular, 2>;
using CircularPad3d = PadLayer<PadMode::circular, 3>;

/// interpolate_by: a factor for each extent, or one for all.
class Upsample : public Module {
 public:
  explicit Upsample(std::vector<double> scale_factor, Interpolation mode = Interpolation::nearest,
                    bool align_corners = false)
      : scale_factor_(std::move(scale_factor)), mode_(mode), align_corners_(align_corners) {}
  explicit Upsample(double scale_factor, Interpolation mode = Interpolation::nearest,
                    bool align_corners = false)
      : Upsample(std::vector<double>{scale_factor}, mode, align_corners) {}
  Variable forward(const Variable& x) override {
    return interpolate_by(x, scale_factor_, mode_, align_corners_);
  }

 private:
  std::vector<double> scale_factor_;
  Interpolation mode_;
  bool align_corners_;
};

/// x[..., C r^2, H, W] -> [..., C, H r, W r].
class PixelShuffle : public Module {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor) : factor_(upscale_factor) {}
  Variable forward(const Variable& x) override { return pixel_shuffle(x, factor_); }

 private:
  std::int64_t factor_;
};

/// x[..., C, H r, W r] -> [..., C r^2, H, W].
class PixelUnshuffle : public Module {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor) : factor_(downscale_factor) {}
  Variable forward(const Variable& x) override { return pixel_unshuffle(x, factor_); }

 private:
  std::int64_t factor_;
};

}  // namespace lockstep::nn
