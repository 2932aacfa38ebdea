#pragma once
// Kernels of interpolate for devices, and which elements an output is made of, for the host's loops
// too. Private to interpolate.cpp.
#include <cstdint>

#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/output_range.hpp>
#include <lockstep/tensor/kernels/resample/interpolate.hpp>

namespace lockstep::detail {

/// The input place of each output place of a dimension.
class NearestPlaces {
 public:
  NearestPlaces(std::int64_t from, std::int64_t to, double ratio)
      : from_(from), to_(to), ratio_(static_cast<float>(ratio)) {}

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t operator()(std::int64_t i) const {
    // In single precision, as in PyTorch. An extent that is kept or doubled does not use the ratio:
    // a factor such as 1.2 or 2.1 would change it.
    const std::int64_t place = to_ == from_ ? i
                               : to_ == 2 * from_
                                   ? i / 2
                                   : static_cast<std::int64_t>(static_cast<float>(i) * ratio_);
    return place < from_ ? place : from_ - 1;
  }
  /// Whether the outputs are pairs: those of place p are 2 p and 2 p + 1.
  [[nodiscard]] bool are_pairs() const {
    for (std::int64_t i = 0; i < to_; ++i) {
      if ((*this)(i) != i / 2) return false;
    }
    return to_ % 2 == 0;
  }
  [[nodiscard]] KOKKOS_FUNCTION OutputRange outputs_of(std::int64_t place) const {
    return {first_output(*this, to_, place), first_output(*this, to_, place + 1)};
  }

 private:
  std::int64_t from_, to_;
  float ratio_;
};

/// An output place of a dimension: between input places `low` and `high`, at the fraction `share`.
template <class T>
struct Between {
  std::int32_t low, high;
  T share;
};

/// The input places of each output place of a dimension.
template <class T>
class LinearPlaces {
 public:
  LinearPlaces(std::int64_t from, std::int64_t to, double ratio, bool align_corners)
      : from_(from), to_(to), align_corners_(align_corners), step_(static_cast<T>(ratio)) {
    if (to == from) step_ = T{1};  // also if a factor such as 1.2 has kept the extent
    if (align_corners) {
      step_ = to > 1 ? static_cast<T>(from - 1) / static_cast<T>(to - 1) : T{0};
    }
  }

  [[nodiscard]] KOKKOS_FUNCTION Between<T> operator()(std::int64_t i) const {
    const T middle = step_ * (static_cast<T>(i) + T{0.5}) - T{0.5};
    const T at = align_corners_ ? step_ * static_cast<T>(i) : middle < T{0} ? T{0} : middle;
    std::int64_t low = static_cast<std::int64_t>(at);
    if (low > from_ - 1) low = from_ - 1;
    const std::int64_t high = low + 1 < from_ ? low + 1 : from_ - 1;
    const T share = at - static_cast<T>(low);
    return {static_cast<std::int32_t>(low), static_cast<std::int32_t>(high),
            share < T{0}   ? T{0}
            : share > T{1} ? T{1}
                           : share};
  }
  /// The outputs that input place `place` may have a part in.
  [[nodiscard]] KOKKOS_FUNCTION OutputRange outputs_of(std::int64_t place) const {
    const auto low = [this](std::int64_t i) { return std::int64_t{(*this)(i).low}; };
    return {first_output(low, to_, place - 1), first_output(low, to_, place + 1)};
  }

 private:
  std::int64_t from_, to_;
  bool align_corners_;
  T step_;
};

/// The last three dimensions of a tensor [planes, D, H, W].
struct Volume {
  std::int64_t depth, height, width;
  explicit Volume(const Tensor& t) : depth(t.size(1)), height(t.size(2)), width(t.size(3)) {}
  /// Of the element in a plane.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t at(std::int64_t plane, std::int64_t d, std::int64_t h,
                                                std::int64_t w) const {
    return ((plane * depth + d) * height + h) * width + w;
  }
};

// A thread writes one element of y.
template <class T, class Space>
void nearest_kernel(const Space& space, const Tensor& x, const Ratios& ratios, const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const Volume from(x), to(y);
  const NearestPlaces planes(from.depth, to.depth, ratios[0]),
      rows(from.height, to.height, ratios[1]), columns(from.width, to.width, ratios[2]);
  for_each(
      "lockstep::interpolate_nearest", space, y.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t line = i / to.width, slice = line / to.height;
        out(i) = in(from.at(slice / to.depth, planes(slice % to.depth), rows(line % to.height),
                            columns(i % to.width)));
      });
}

// A thread adds up the gradient of one element of x.
template <class T, class Space>
void nearest_backward_kernel(const Space& space, const Tensor& grad_y, const Ratios& ratios,
                             bool accumulate, const Tensor& grad_x) {
  const auto in = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, T>(grad_x);
  const Volume from(grad_x), to(grad_y);
  const NearestPlaces planes(from.depth, to.depth, ratios[0]),
      rows(from.height, to.height, ratios[1]), columns(from.width, to.width, ratios[2]);
  for_each(
      "lockstep::interpolate_nearest_backward", space, grad_x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t line = i / from.width, slice = line / from.height,
                           plane = slice / from.depth;
        const OutputRange d = planes.outputs_of(slice % from.depth),
                          h = rows.outputs_of(line % from.height),
                          w = columns.outputs_of(i % from.width);
        T sum = accumulate ? out(i) : T{0};
        for (std::int64_t s = d.begin; s < d.end; ++s) {
          for (std::int64_t r = h.begin; r < h.end; ++r) {
            for (std::int64_t c = w.begin; c < w.end; ++c) sum += in(to.at(plane, s, r, c));
          }
        }
        out(i) = sum;
      });
}

// A thread writes one element of y.
template <class T, class Space>
void bilinear_kernel(const Space& space, const Tensor& x, const Ratios& ratios, bool align_corners,
                     const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const Volume from(x), to(y);
  const LinearPlaces<T> rows(from.height, to.height, ratios[1], align_corners),
      columns(from.width, to.width, ratios[2], align_corners);
  for_each(
      "lockstep::interpolate_bilinear", space, y.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t line = i / to.width, plane = line / to.height;
        const Between<T> row = rows(line % to.height), column = columns(i % to.width);
        const T share = row.share, rest = T{1} - share;
        const auto mixed = [&](std::int64_t c) {
          return rest * in(from.at(plane, 0, row.low, c)) +
                 share * in(from.at(plane, 0, row.high, c));
        };
        out(i) = (T{1} - column.share) * mixed(column.low) + column.share * mixed(column.high);
      });
}

// A thread adds up the gradient of one element of x: of each row of y first the columns.
template <class T, class Space>
void bilinear_backward_kernel(const Space& space, const Tensor& grad_y, const Ratios& ratios,
                              bool align_corners, bool accumulate, const Tensor& grad_x) {
  const auto in = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, T>(grad_x);
  const Volume from(grad_x), to(grad_y);
  const LinearPlaces<T> rows(from.height, to.height, ratios[1], align_corners),
      columns(from.width, to.width, ratios[2], align_corners);
  for_each(
      "lockstep::interpolate_bilinear_backward", space, grad_x.numel(),
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t line = i / from.width, plane = line / from.height;
        const std::int64_t h = line % from.height, w = i % from.width;
        const OutputRange in_rows = rows.outputs_of(h), in_columns = columns.outputs_of(w);
        T sum = accumulate ? out(i) : T{0};
        for (std::int64_t r = in_rows.begin; r < in_rows.end; ++r) {
          T gathered{0};
          for (std::int64_t c = in_columns.begin; c < in_columns.end; ++c) {
            const Between<T> column = columns(c);
            const T gradient = in(to.at(plane, 0, r, c));
            if (column.low == w) gathered += (T{1} - column.share) * gradient;
            if (column.high == w) gathered += column.share * gradient;
          }
          const Between<T> row = rows(r);
          if (row.low == h) sum += (T{1} - row.share) * gathered;
          if (row.high == h) sum += row.share * gathered;
        }
        out(i) = sum;
      });
}

}  // namespace lockstep::detail
