#include <lockstep/tensor/kernels/resample/interpolate.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/resample/interpolate_kernels.hpp>
#include <lockstep/tensor/kernels/thread_row.hpp>

namespace lockstep {
namespace {

using detail::Between;
using detail::LinearPlaces;
using detail::NearestPlaces;

/// The input place of each output place of a dimension. The memory is kept by the thread.
const std::vector<std::int32_t>& nearest_places(std::size_t dimension, std::int64_t from,
                                                std::int64_t to, double ratio) {
  thread_local std::array<std::vector<std::int32_t>, 3> all;
  auto& places = all[dimension];
  places.resize(static_cast<std::size_t>(to));
  const NearestPlaces place(from, to, ratio);
  for (std::int64_t i = 0; i < to; ++i)
    places[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(place(i));
  return places;
}

/// Calls row(offset in the larger tensor y, offset in x) for every row of y along W.
template <class F>
void for_each_nearest_row(const Shape& x, const Shape& y, const Ratios& ratios, const F& row) {
  const auto &planes = nearest_places(0, x[1], y[1], ratios[0]),
             &lines = nearest_places(1, x[2], y[2], ratios[1]);
  std::int64_t at = 0;
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (const auto d : planes) {
      for (const auto h : lines) {
        row(at, ((n * x[1] + d) * x[2] + h) * x[3]);
        at += y[3];
      }
    }
  }
}

template <class T>
void nearest_rows(const HostArray& x, const Ratios& ratios, const HostArray& y) {
  const auto& places = nearest_places(2, x.size(3), y.size(3), ratios[2]);
  const auto* const in = static_cast<const T*>(x.data());
  auto* const out = static_cast<T*>(y.data());
  const std::int64_t width = y.size(3);
  const std::int32_t* const place = places.data();
  for_each_nearest_row(x.shape(), y.shape(), ratios, [&](std::int64_t to, std::int64_t from) {
    const T* const source = in + from;
    T* const line = out + to;
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) line[i] = source[place[i]];
  });
}

/// out[place[i]] += row[i]; of `pairs` both at once.
template <class T>
void fold_row(const std::vector<std::int32_t>& places, bool pairs, const T* row, T* out) {
  if (pairs) {
    const auto width = std::ssize(places);
#pragma omp simd
    for (std::int64_t i = 0; i < width / 2; ++i) out[i] += row[2 * i] + row[2 * i + 1];
    return;
  }
  for (const auto place : places) out[place] += *row++;
}

// Rows with the same source row are neighbours: they are first summed, by vector code.
template <class T>
void nearest_rows_back(const HostArray& grad_y, const Ratios& ratios, const HostArray& grad_x) {
  const auto& places = nearest_places(2, grad_x.size(3), grad_y.size(3), ratios[2]);
  const auto* const in = static_cast<const T*>(grad_y.data());
  auto* const out = static_cast<T*>(grad_x.data());
  const std::int64_t width = grad_y.size(3);
  const bool pairs = NearestPlaces(grad_x.size(3), width, ratios[2]).are_pairs();
  T* const sum = detail::thread_row<T>(width);
  std::int64_t open = -1;
  for_each_nearest_row(grad_x.shape(), grad_y.shape(), ratios,
                       [&](std::int64_t from, std::int64_t to) {
                         const T* const source = in + from;
                         if (to == open) {
#pragma omp simd
                           for (std::int64_t i = 0; i < width; ++i) sum[i] += source[i];
                           return;
                         }
                         if (open >= 0) fold_row(places, pairs, sum, out + open);
                         std::copy_n(source, width, sum);
                         open = to;
                       });
  if (open >= 0) fold_row(places, pairs, sum, out + open);
}

template <class T>
const std::vector<Between<T>>& places_between(std::size_t dimension, std::int64_t from,
                                              std::int64_t to, double ratio, bool align_corners) {
  thread_local std::array<std::vector<Between<T>>, 2> all;
  auto& places = all[dimension];
  places.resize(static_cast<std::size_t>(to));
  const LinearPlaces<T> place(from, to, ratio, align_corners);
  for (std::int64_t i = 0; i < to; ++i) places[static_cast<std::size_t>(i)] = place(i);
  return places;
}

// One output row needs two input rows. They are first mixed whole, by vector code; then elements
// are picked.
template <class T>
void bilinear_rows(const HostArray& x, const Ratios& ratios, bool align_corners,
                   const HostArray& y) {
  const auto& rows = places_between<T>(0, x.size(2), y.size(2), ratios[1], align_corners);
  const auto& columns = places_between<T>(1, x.size(3), y.size(3), ratios[2], align_corners);
  const std::int64_t height = x.size(2), width = x.size(3), out_width = y.size(3);
  const auto* in = static_cast<const T*>(x.data());
  auto* out = static_cast<T*>(y.data());
  T* const mixed = detail::thread_row<T>(width);
  const Between<T>* const column = columns.data();
  for (std::int64_t n = 0; n < x.size(0); ++n, in += height * width) {
    for (const auto& row : rows) {
      const T *const low = in + row.low * width, *const high = in + row.high * width;
      const T share = row.share, rest = T{1} - share;
#pragma omp simd
      for (std::int64_t i = 0; i < width; ++i) mixed[i] = rest * low[i] + share * high[i];
      for (std::int64_t i = 0; i < out_width; ++i) {
        const auto& c = column[i];
        out[i] = (T{1} - c.share) * mixed[c.low] + c.share * mixed[c.high];
      }
      out += out_width;
    }
  }
}

template <class T>
void bilinear_rows_back(const HostArray& grad_y, const Ratios& ratios, bool align_corners,
                        const HostArray& grad_x) {
  const auto& rows = places_between<T>(0, grad_x.size(2), grad_y.size(2), ratios[1], align_corners);
  const auto& columns =
      places_between<T>(1, grad_x.size(3), grad_y.size(3), ratios[2], align_corners);
  const std::int64_t height = grad_x.size(2), width = grad_x.size(3), out_width = grad_y.size(3);
  const auto* in = static_cast<const T*>(grad_y.data());
  auto* out = static_cast<T*>(grad_x.data());
  T* const gathered = detail::thread_row<T>(width);
  for (std::int64_t n = 0; n < grad_x.size(0); ++n, out += height * width) {
    for (const auto& row : rows) {
      std::fill_n(gathered, width, T{0});
      for (std::int64_t i = 0; i < out_width; ++i) {
        const auto& c = columns[static_cast<std::size_t>(i)];
        gathered[c.low] += (T{1} - c.share) * in[i];
        gathered[c.high] += c.share * in[i];
      }
      T *const low = out + row.low * width, *const high = out + row.high * width;
      const T share = row.share, rest = T{1} - share;
      for (std::int64_t i = 0; i < width; ++i) low[i] += rest * gathered[i];
      for (std::int64_t i = 0; i < width; ++i) high[i] += share * gathered[i];
      in += out_width;
    }
  }
}

}  // namespace

void nearest_forward(const Tensor& x, const Ratios& ratios, const Tensor& y) {
  dispatch_floating(x.dtype(), "interpolate", [&]<class T>() {
    host_or_kernels(
        "interpolate",
        [=](const HostArray& from, const HostArray& to) { nearest_rows<T>(from, ratios, to); },
        [&](const auto& space) { detail::nearest_kernel<T>(space, x, ratios, y); }, x, y);
  });
}

void nearest_backward(const Tensor& grad_y, const Ratios& ratios, bool accumulate,
                      const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "interpolate", [&]<class T>() {
    host_or_kernels(
        "interpolate",
        [=](const HostArray& from, const HostArray& to) {
          if (!accumulate) zero<T>(to);
          nearest_rows_back<T>(from, ratios, to);
        },
        [&](const auto& space) {
          detail::nearest_backward_kernel<T>(space, grad_y, ratios, accumulate, grad_x);
        },
        grad_y, grad_x);
  });
}

void bilinear_forward(const Tensor& x, const Ratios& ratios, bool align_corners, const Tensor& y) {
  dispatch_floating(x.dtype(), "interpolate", [&]<class T>() {
    host_or_kernels(
        "interpolate",
        [=](const HostArray& from, const HostArray& to) {
          bilinear_rows<T>(from, ratios, align_corners, to);
        },
        [&](const auto& space) { detail::bilinear_kernel<T>(space, x, ratios, align_corners, y); },
        x, y);
  });
}

void bilinear_backward(const Tensor& grad_y, const Ratios& ratios, bool align_corners,
                       bool accumulate, const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "interpolate", [&]<class T>() {
    host_or_kernels(
        "interpolate",
        [=](const HostArray& from, const HostArray& to) {
          if (!accumulate) zero<T>(to);
          bilinear_rows_back<T>(from, ratios, align_corners, to);
        },
        [&](const auto& space) {
          detail::bilinear_backward_kernel<T>(space, grad_y, ratios, align_corners, accumulate,
                                              grad_x);
        },
        grad_y, grad_x);
  });
}

}  // namespace lockstep
