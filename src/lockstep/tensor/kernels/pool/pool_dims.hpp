#pragma once
// How the dimensions of a pool are divided into windows. Private to the pools' .cpp files.
#include <cstdint>

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
  /// The input places [begin, end) of output `o`, without dilation.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t begin(std::int64_t o) const {
    const std::int64_t at = o * stride - padding;
    return at > 0 ? at : 0;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t o) const {
    return smaller(o * stride - padding + kernel, in);
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

}  // namespace lockstep::detail
