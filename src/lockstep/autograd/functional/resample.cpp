#include <lockstep/autograd/functional/resample.hpp>

#include <array>
#include <cmath>
#include <span>
#include <string>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/kernels/resample/interpolate.hpp>
#include <lockstep/tensor/kernels/resample/pixel_shuffle.hpp>
#include <lockstep/tensor/kernels/resample/resample.hpp>

namespace lockstep {
namespace {

/// Padding with zeros instead of another constant: the gradient does not depend on the constant.
struct PadMap {
  PadAmounts amounts;
  PadMode mode;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate,
                    [&](const Tensor& to) { pad_forward(x, amounts, mode, 0.0, to); });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    pad_backward(y, amounts, mode, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept { return "pad"; }
};

/// [N, C, ...] as [N C, D, H, W].
Shape planes_of(const Shape& shape) {
  const std::int64_t planes = shape[0] * shape[1];
  switch (shape.dims()) {
    case 3:
      return {planes, 1, 1, shape[2]};
    case 4:
      return {planes, 1, shape[2], shape[3]};
    default:
      return {planes, shape[2], shape[3], shape[4]};
  }
}

struct InterpolateMap {
  Ratios ratios;
  Interpolation mode;
  bool align_corners;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    if (x.numel() == 0) return;
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      const Tensor from_planes = planes(x), to_planes = planes(to);
      if (mode == Interpolation::nearest) {
        nearest_forward(from_planes, ratios, to_planes);
      } else {
        bilinear_forward(from_planes, ratios, align_corners, to_planes);
      }
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    if (mode == Interpolation::nearest) {
      nearest_backward(planes(y), ratios, accumulate, planes(x));
    } else {
      bilinear_backward(planes(y), ratios, align_corners, accumulate, planes(x));
    }
  }
  [[nodiscard]] static const char* name() noexcept { return "interpolate"; }

  static Tensor planes(const Tensor& t) { return t.reshape(planes_of(t.shape())); }
};

/// Resamples one dimension after N and C after another. The last dimension comes first: for the
/// others whole rows can then be added.
struct ResampleMap {
  Taps taps;
  Ratios ratios;
  bool align_corners;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      Tensor from = x;
      for (int d = x.dims() - 1; d >= 2; --d) {
        const Tensor next = d == 2 ? to : resized(from, d, to.size(d));
        resample_forward(lines(from, d), along(x, d), lines(next, d));
        from = next;
      }
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    Tensor from = y;
    for (int d = 2; d < x.dims(); ++d) {
      const bool last = d == x.dims() - 1;
      const Tensor next = last ? x : resized(from, d, x.size(d));
      resample_backward(lines(from, d), along(x, d), last && accumulate, lines(next, d));
      from = next;
    }
  }
  [[nodiscard]] static const char* name() noexcept { return "interpolate"; }

 private:
  [[nodiscard]] Resampling along(const Tensor& x, int d) const {
    return {
        taps,
        ratios[std::size_t{3} + static_cast<std::size_t>(d) - static_cast<std::size_t>(x.dims())],
        align_corners};
  }
  static Tensor resized(const Tensor& t, int d, std::int64_t extent) {
    return Tensor::empty(with_extent(t.shape(), d, extent), t.dtype(), t.device());
  }
  /// [outer, extent of d, inner].
  static Tensor lines(const Tensor& t, int d) {
    std::int64_t outer = 1, inner = 1;
    for (int before = 0; before < d; ++before) outer *= t.size(before);
    for (int behind = d + 1; behind < t.dims(); ++behind) inner *= t.size(behind);
    return t.reshape({outer, t.size(d), inner});
  }
};

/// t as the parts [P, r, r, H, W] of a shuffle whose other side is planes [P, H r, W r].
Tensor parts_of(const Tensor& t, std::int64_t r) {
  return t.reshape({t.numel() / (t.size(-1) * t.size(-2) * r * r), r, r, t.size(-2), t.size(-1)});
}

/// y (+)= x, shuffled or unshuffled.
template <bool shuffle>
void shuffle_copy(const Tensor& x, std::int64_t r, bool accumulate, const Tensor& y) {
  if (x.numel() == 0) return;
  if constexpr (shuffle) {
    pixel_shuffle_copy(parts_of(x, r), accumulate, y);
  } else {
    pixel_unshuffle_copy(x, accumulate, parts_of(y, r));
  }
}

template <bool shuffle>
struct PixelShuffleMap {
  std::int64_t r;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    shuffle_copy<shuffle>(x, r, accumulate, y);
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    shuffle_copy<!shuffle>(y, r, accumulate, x);
  }
  [[nodiscard]] static const char* name() noexcept {
    return shuffle ? "pixel_shuffle" : "pixel_unshuffle";
  }
};

Variable averaged_over_areas(const Variable& x, std::span<const std::int64_t> size) {
  switch (size.size()) {
    case 1:
      return adaptive_avg_pool1d(x, Extents<1>::from(size));
    case 2:
      return adaptive_avg_pool2d(x, Extents<2>::from(size));
    default:
      return adaptive_avg_pool3d(x, Extents<3>::from(size));
  }
}

Variable resampled(const Variable& x, std::span<const std::int64_t> size, const Ratios& ratios,
                   Interpolation mode, bool align_corners) {
  if (mode == Interpolation::area) return averaged_over_areas(x, size);
  Shape shape = x.shape();
  for (std::size_t d = 0; d < size.size(); ++d) {
    shape = with_extent(shape, static_cast<int>(d) + 2, size[d]);
  }
  const Tensor y = Tensor::empty(shape, x.data().dtype(), x.data().device());
  if (mode == Interpolation::trilinear || mode == Interpolation::bicubic) {
    const Taps taps = mode == Interpolation::bicubic ? Taps::cubic : Taps::linear;
    return linear_map(ResampleMap{taps, ratios, align_corners}, x, y);
  }
  return linear_map(InterpolateMap{ratios, mode, align_corners}, x, y);
}

/// A shape with the last three extents `last`.
template <bool shuffle>
Variable shuffled(const Variable& x, std::int64_t r, const std::array<std::int64_t, 3>& last) {
  Shape shape = x.shape();
  for (int d = 0; d < 3; ++d)
    shape = with_extent(shape, shape.dims() - 3 + d, last[static_cast<std::size_t>(d)]);
  return linear_map(PixelShuffleMap<shuffle>{r}, x,
                    Tensor::empty(shape, x.data().dtype(), x.data().device()));
}

void check_interpolation(const Variable& x, std::size_t sizes, Interpolation mode,
                         bool align_corners) {
  const int dims = x.shape().dims();
  const bool any = mode == Interpolation::nearest || mode == Interpolation::area;
  const int wanted = mode == Interpolation::linear ? 3 : mode == Interpolation::trilinear ? 5 : 4;
  const bool fits = any ? dims >= 3 && dims <= 5 && !align_corners : dims == wanted;
  if (!fits || sizes + 2 != static_cast<std::size_t>(dims)) {
    throw ShapeError(
        "interpolate of " + describe(x.data()) + " to " + std::to_string(sizes) +
        " extents: nearest and area take [N, C, L], [N, C, H, W] or [N, C, D, H, W] and "
        "no align_corners, linear [N, C, L], bilinear and bicubic [N, C, H, W], "
        "trilinear [N, C, D, H, W]; one extent is given for each behind C, or one "
        "for all");
  }
  for (int d = 2; d < dims; ++d) {
    if (x.shape()[d] > 0) continue;
    throw ShapeError("interpolate of " + describe(x.data()) + ": dimension " + std::to_string(d) +
                     " is empty, so there is nothing to interpolate");
  }
}

/// The ratios of D, H and W; ratio(d) is that of extent d after C.
template <class F>
Ratios ratios_of(std::size_t count, const F& ratio) {
  Ratios ratios{1.0, 1.0, 1.0};
  for (std::size_t d = 0; d < count; ++d) ratios[3 - count + d] = ratio(d);
  return ratios;
}

}  // namespace

Variable pad(const Operand& x, std::span<const std::int64_t> amounts, PadMode mode, double value) {
  const auto complain = [&](const std::string& why) {
    std::string list;
    for (const auto amount : amounts) list += (list.empty() ? "" : ", ") + std::to_string(amount);
    throw ShapeError("pad of " + describe(x.data()) + " by (" + list + "): " + why);
  };
  const Shape& from = x.shape();
  const std::size_t pairs = amounts.size() / 2;
  if (amounts.size() % 2 != 0 || pairs > static_cast<std::size_t>(from.dims()) || pairs == 0) {
    complain("give two numbers for each dimension, the last one first");
  }
  if (mode != PadMode::constant && pairs > 3)
    complain("only constant pads more than three dimensions");
  PadAmounts given;
  Shape to = from;
  for (std::size_t k = 0; k < pairs; ++k) {
    const int d = from.dims() - 1 - static_cast<int>(k);
    const std::int64_t before = amounts[2 * k], behind = amounts[2 * k + 1], extent = from[d];
    given.before[k] = before;
    given.behind[k] = behind;
    const std::int64_t most = mode == PadMode::reflect ? extent - 1 : extent;
    if (mode != PadMode::constant && (before < 0 || behind < 0))
      complain("only constant takes negative padding");
    if ((mode == PadMode::reflect || mode == PadMode::circular) &&
        (before > most || behind > most)) {
      complain("at most " + std::to_string(most) + " elements can be padded to dimension " +
               std::to_string(d));
    }
    if (mode == PadMode::replicate && extent == 0)
      complain("an empty dimension has no edge to repeat");
    if (extent + before + behind < 0) complain("the result would have a negative extent");
    to = with_extent(to, d, extent + before + behind);
  }
  Tensor y = Tensor::empty(to, x.data().dtype(), x.data().device());
  pad_forward(x.data(), given, mode, value, y);
  return record<LinearMapNode<PadMap>>(std::move(y), {&x}, PadMap{given, mode});
}

Variable interpolate(const Operand& x, std::span<const std::int64_t> size, Interpolation mode,
                     bool align_corners) {
  const auto spatial = static_cast<std::size_t>(std::clamp(x.shape().dims() - 2, 0, 3));
  const std::int64_t first = size.empty() ? 0 : size[0];
  const std::array<std::int64_t, 3> same{first, first, first};
  if (size.size() == 1) size = std::span(same).first(spatial);
  check_interpolation(x, size.size(), mode, align_corners);
  for (const auto extent : size) {
    if (extent < 1)
      throw ShapeError("interpolate: a size is at least 1, not " + std::to_string(extent));
  }
  return resampled(x, size,
                   ratios_of(size.size(),
                             [&](std::size_t d) {
                               return static_cast<double>(x.shape()[static_cast<int>(d) + 2]) /
                                      static_cast<double>(size[d]);
                             }),
                   mode, align_corners);
}

Variable interpolate_by(const Operand& x, std::span<const double> scale_factor, Interpolation mode,
                        bool align_corners) {
  const auto spatial = static_cast<std::size_t>(std::max(0, x.shape().dims() - 2));
  const auto factor = [&](std::size_t d) {
    return scale_factor.size() == 1 ? scale_factor[0] : scale_factor[d];
  };
  check_interpolation(x, scale_factor.size() == 1 ? spatial : scale_factor.size(), mode,
                      align_corners);
  std::array<std::int64_t, 3> size{};  // check_interpolation allows at most three
  for (std::size_t d = 0; d < spatial; ++d) {
    const double extent = static_cast<double>(x.shape()[static_cast<int>(d) + 2]) * factor(d);
    if (!(extent >= 1.0)) {
      throw ShapeError("interpolate_by: " + describe(x.data()) + " times " +
                       std::to_string(factor(d)) + " would have no element");
    }
    size[d] = static_cast<std::int64_t>(extent);
  }
  return resampled(x, std::span(size).first(spatial),
                   ratios_of(spatial, [&](std::size_t d) { return 1.0 / factor(d); }), mode,
                   align_corners);
}

Variable pixel_shuffle(const Operand& x, std::int64_t r) {
  const Shape& s = x.shape();
  if (s.dims() < 3 || r < 1 || s[-3] % (r * r) != 0) {
    throw ShapeError("pixel_shuffle of " + describe(x.data()) + " by " + std::to_string(r) +
                     ": x is [..., C, H, W], and C a multiple of the factor's square");
  }
  return shuffled<true>(x, r, {s[-3] / (r * r), s[-2] * r, s[-1] * r});
}

Variable pixel_unshuffle(const Operand& x, std::int64_t r) {
  const Shape& s = x.shape();
  if (s.dims() < 3 || r < 1 || s[-1] % r != 0 || s[-2] % r != 0) {
    throw ShapeError("pixel_unshuffle of " + describe(x.data()) + " by " + std::to_string(r) +
                     ": x is [..., C, H, W], and H and W multiples of the factor");
  }
  return shuffled<false>(x, r, {s[-3] * r * r, s[-2] / r, s[-1] / r});
}

}  // namespace lockstep
