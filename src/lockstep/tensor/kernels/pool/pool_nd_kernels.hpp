#pragma once
// Kernels of pools of any windows for devices, and how a dimension is divided into windows. Private
// to pool_nd.cpp.
#include <cstdint>
#include <limits>

#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/output_range.hpp>
#include <lockstep/tensor/kernels/pool/pool2d_window.hpp>
#include <lockstep/tensor/kernels/pool/pool_nd.hpp>

namespace lockstep::detail {

/// The windows along one dimension.
struct WindowsAlong {
  std::int64_t kernel, stride, padding, dilation, in, out;

  WindowsAlong(const PoolWindow& w, std::size_t d, std::int64_t in_extent, std::int64_t out_extent)
      : kernel(w.kernel[d]),
        stride(w.stride[d]),
        padding(w.padding[d]),
        dilation(w.dilation[d]),
        in(in_extent),
        out(out_extent) {}

  /// The input place of a tap of output `o`; outside the input for padding.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t place(std::int64_t o, std::int64_t tap) const {
    return o * stride + tap * dilation - padding;
  }
  [[nodiscard]] KOKKOS_FUNCTION bool is_inside(std::int64_t at) const { return at >= 0 && at < in; }
  /// The number of elements in the mean of output `o`.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t elements(std::int64_t o, bool count_padding) const {
    const std::int64_t begin = o * stride - padding, end = begin + kernel;
    if (count_padding) return smaller(end, in + padding) - begin;
    return smaller(end, in) - (begin > 0 ? begin : 0);
  }
  /// The outputs whose windows may have a tap at input place `at`.
  [[nodiscard]] KOKKOS_FUNCTION OutputRange outputs_over(std::int64_t at) const {
    const std::int64_t reach = at + padding - (kernel - 1) * dilation;
    return {reach <= 0 ? 0 : (reach + stride - 1) / stride,
            smaller((at + padding) / stride + 1, out)};
  }
  /// Of such an output: whether it has one.
  [[nodiscard]] KOKKOS_FUNCTION bool has_tap(std::int64_t o, std::int64_t at) const {
    return (at + padding - o * stride) % dilation == 0;
  }
};

/// The parts of one dimension of an adaptive pool.
struct PartsAlong {
  std::int64_t in, out;

  PartsAlong(std::int64_t in_extent, std::int64_t out_extent) : in(in_extent), out(out_extent) {}

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t begin(std::int64_t o) const {
    return AdaptiveWindow().begin(o, in, out);
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t o) const {
    return AdaptiveWindow().end(o, in, out);
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t elements(std::int64_t o) const {
    return end(o) - begin(o);
  }
  [[nodiscard]] KOKKOS_FUNCTION OutputRange outputs_over(std::int64_t at) const {
    return {AdaptiveWindow().first_over(at, in, out), AdaptiveWindow().end_over(at, in, out)};
  }
};

/// A pool's three dimensions, of x[planes, D, H, W] and y.
template <class Along>
struct PoolDims {
  Along d, h, w;

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t in_plane() const { return d.in * h.in * w.in; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t out_plane() const { return d.out * h.out * w.out; }
  /// The place of an element in its plane.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t in_place(std::int64_t i, std::int64_t j,
                                                      std::int64_t k) const {
    return (i * h.in + j) * w.in + k;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t out_place(std::int64_t i, std::int64_t j,
                                                       std::int64_t k) const {
    return (i * h.out + j) * w.out + k;
  }
};

inline PoolDims<WindowsAlong> windows_of(const PoolWindow& w, const Tensor& x, const Tensor& y) {
  return {WindowsAlong(w, 0, x.size(1), y.size(1)), WindowsAlong(w, 1, x.size(2), y.size(2)),
          WindowsAlong(w, 2, x.size(3), y.size(3))};
}
inline PoolDims<PartsAlong> parts_of(const Tensor& x, const Tensor& y) {
  return {PartsAlong(x.size(1), y.size(1)), PartsAlong(x.size(2), y.size(2)),
          PartsAlong(x.size(3), y.size(3))};
}

/// An element by its plane and its place there.
struct PlacedElement {
  std::int64_t plane, i, j, k;
  KOKKOS_FUNCTION PlacedElement(std::int64_t at, std::int64_t depth, std::int64_t height,
                                std::int64_t width)
      : plane(at / width / height / depth),
        i(at / width / height % depth),
        j(at / width % height),
        k(at % width) {}
};

/// f(place in the plane) for each tap of output o within the input, in row-major order.
template <class F>
KOKKOS_FUNCTION void each_tap(const PoolDims<WindowsAlong>& dims, const PlacedElement& o,
                              const F& f) {
  for (std::int64_t i = 0; i < dims.d.kernel; ++i) {
    const std::int64_t d = dims.d.place(o.i, i);
    for (std::int64_t j = 0; j < dims.h.kernel && dims.d.is_inside(d); ++j) {
      const std::int64_t h = dims.h.place(o.j, j);
      for (std::int64_t k = 0; k < dims.w.kernel && dims.h.is_inside(h); ++k) {
        const std::int64_t w = dims.w.place(o.k, k);
        if (dims.w.is_inside(w)) f(dims.in_place(d, h, w));
      }
    }
  }
}

/// f(i, j, k) for each output that may have a part in x, in row-major order.
template <class Along, class F>
KOKKOS_FUNCTION void each_output(const PoolDims<Along>& dims, const PlacedElement& x, const F& f) {
  const OutputRange d = dims.d.outputs_over(x.i), h = dims.h.outputs_over(x.j),
                    w = dims.w.outputs_over(x.k);
  for (std::int64_t i = d.begin; i < d.end; ++i) {
    for (std::int64_t j = h.begin; j < h.end; ++j) {
      for (std::int64_t k = w.begin; k < w.end; ++k) f(i, j, k);
    }
  }
}

// A thread writes one element of y.
template <class T, class Space>
void max_pool_kernel(const Space& space, const Tensor& x, const PoolWindow& window, const Tensor& y,
                     const Tensor& indices) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const auto chosen = flat_view<Space, std::int32_t>(indices);
  const auto dims = windows_of(window, x, y);
  for_each(
      "lockstep::max_pool_forward", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement o(at, dims.d.out, dims.h.out, dims.w.out);
        const std::int64_t plane = o.plane * dims.in_plane();
        T best = -std::numeric_limits<T>::infinity();
        std::int64_t best_place = -1;
        each_tap(dims, o, [&](std::int64_t place) {
          const T value = in(plane + place);
          // The first element is chosen even if it is -inf.
          if (value > best || value != value || best_place < 0) {
            best = value;
            best_place = place;
          }
        });
        out(at) = best;
        chosen(at) = static_cast<std::int32_t>(best_place);
      });
}

// A thread adds up the gradient of one element of x.
template <class T, class Along, class Space>
void max_pool_backward_kernel(const Space& space, const PoolDims<Along>& dims, const Tensor& grad_y,
                              const Tensor& indices, bool accumulate, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto chosen = flat_view<Space, const std::int32_t>(indices);
  const auto out = flat_view<Space, T>(grad_x);
  for_each(
      "lockstep::max_pool_backward", space, grad_x.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement x(at, dims.d.in, dims.h.in, dims.w.in);
        const std::int64_t plane = x.plane * dims.out_plane();
        const auto me = static_cast<std::int32_t>(dims.in_place(x.i, x.j, x.k));
        T sum = accumulate ? out(at) : T{0};
        each_output(dims, x, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
          const std::int64_t o = plane + dims.out_place(i, j, k);
          if (chosen(o) == me) sum += g(o);
        });
        out(at) = sum;
      });
}

/// The divisor of the sum of output (i, j, k).
template <class T>
struct MeanDivisor {
  std::int64_t divisor;
  bool count_padding;

  explicit MeanDivisor(const AveragePool& pool)
      : divisor(pool.divisor), count_padding(pool.count_include_pad) {}
  [[nodiscard]] KOKKOS_FUNCTION T of(const PoolDims<WindowsAlong>& dims, std::int64_t i,
                                     std::int64_t j, std::int64_t k) const {
    if (divisor != 0) return static_cast<T>(divisor);
    return static_cast<T>(dims.d.elements(i, count_padding) * dims.h.elements(j, count_padding)) *
           static_cast<T>(dims.w.elements(k, count_padding));
  }
};

// A thread writes one element of y.
template <class T, class Space>
void avg_pool_kernel(const Space& space, const Tensor& x, const AveragePool& pool,
                     const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const auto dims = windows_of(pool.window, x, y);
  const MeanDivisor<T> divisor(pool);
  for_each(
      "lockstep::avg_pool_forward", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement o(at, dims.d.out, dims.h.out, dims.w.out);
        const std::int64_t plane = o.plane * dims.in_plane();
        T sum{0};
        each_tap(dims, o, [&](std::int64_t place) { sum += in(plane + place); });
        out(at) = sum / divisor.of(dims, o.i, o.j, o.k);
      });
}

// A thread adds up the gradient of one element of x.
template <class T, class Space>
void avg_pool_backward_kernel(const Space& space, const Tensor& grad_y, const AveragePool& pool,
                              bool accumulate, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, T>(grad_x);
  const auto dims = windows_of(pool.window, grad_x, grad_y);
  const MeanDivisor<T> divisor(pool);
  for_each(
      "lockstep::avg_pool_backward", space, grad_x.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement x(at, dims.d.in, dims.h.in, dims.w.in);
        const std::int64_t plane = x.plane * dims.out_plane();
        T sum = accumulate ? out(at) : T{0};
        each_output(dims, x, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
          if (!dims.d.has_tap(i, x.i) || !dims.h.has_tap(j, x.j) || !dims.w.has_tap(k, x.k)) return;
          sum += g(plane + dims.out_place(i, j, k)) / divisor.of(dims, i, j, k);
        });
        out(at) = sum;
      });
}

// A thread writes one element of y: it reduces each column of the part, and then those.
template <class T, class Space>
void adaptive_max_pool_kernel(const Space& space, const Tensor& x, const Tensor& y,
                              const Tensor& indices) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const auto chosen = flat_view<Space, std::int32_t>(indices);
  const auto dims = parts_of(x, y);
  for_each(
      "lockstep::adaptive_max_pool", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement o(at, dims.d.out, dims.h.out, dims.w.out);
        const std::int64_t plane = o.plane * dims.in_plane();
        T best{0};
        std::int64_t best_row = -1, best_column = 0;
        for (std::int64_t k = dims.w.begin(o.k); k < dims.w.end(o.k); ++k) {
          T largest{0};
          std::int64_t row = -1;
          for (std::int64_t i = dims.d.begin(o.i); i < dims.d.end(o.i); ++i) {
            for (std::int64_t j = dims.h.begin(o.j); j < dims.h.end(o.j); ++j) {
              const std::int64_t start = dims.in_place(i, j, 0);
              const T value = in(plane + start + k);
              if (row < 0 || value > largest || value != value) {
                largest = value;
                row = start;
              }
            }
          }
          // Of equal elements the one in the earlier row comes first in the window.
          if (best_row < 0 || largest > best || largest != largest ||
              (largest == best && row < best_row)) {
            best = largest;
            best_row = row;
            best_column = k;
          }
        }
        out(at) = best;
        chosen(at) = static_cast<std::int32_t>(best_row + best_column);
      });
}

// A thread writes one element of y: it sums each column of the part, and then those.
template <class T, class Space>
void adaptive_avg_pool_kernel(const Space& space, const Tensor& x, const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const auto dims = parts_of(x, y);
  for_each(
      "lockstep::adaptive_avg_pool", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement o(at, dims.d.out, dims.h.out, dims.w.out);
        const std::int64_t plane = o.plane * dims.in_plane();
        T sum{0};
        for (std::int64_t k = dims.w.begin(o.k); k < dims.w.end(o.k); ++k) {
          T column{0};
          for (std::int64_t i = dims.d.begin(o.i); i < dims.d.end(o.i); ++i) {
            for (std::int64_t j = dims.h.begin(o.j); j < dims.h.end(o.j); ++j) {
              column += in(plane + dims.in_place(i, j, k));
            }
          }
          sum += column;
        }
        out(at) = sum / static_cast<T>(dims.d.elements(o.i) * dims.h.elements(o.j) *
                                       dims.w.elements(o.k));
      });
}

// A thread adds up the gradient of one element of x.
template <class T, class Space>
void adaptive_avg_pool_backward_kernel(const Space& space, const Tensor& grad_y, bool accumulate,
                                       const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, T>(grad_x);
  const auto dims = parts_of(grad_x, grad_y);
  for_each(
      "lockstep::adaptive_avg_pool_backward", space, grad_x.numel(),
      KOKKOS_LAMBDA(std::int64_t at) {
        const PlacedElement x(at, dims.d.in, dims.h.in, dims.w.in);
        const std::int64_t plane = x.plane * dims.out_plane();
        T sum = accumulate ? out(at) : T{0};
        each_output(dims, x, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
          sum += g(plane + dims.out_place(i, j, k)) /
                 static_cast<T>(dims.d.elements(i) * dims.h.elements(j) * dims.w.elements(k));
        });
        out(at) = sum;
      });
}

}  // namespace lockstep::detail
