#pragma once
// Kernels of pools of any windows for devices. Private to pool_nd.cpp.
#include <cstdint>
#include <limits>

#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/pool/pool_dims.hpp>

namespace lockstep::detail {

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
