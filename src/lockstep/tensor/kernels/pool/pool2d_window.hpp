#pragma once
// The correspondence of windows and positions along one axis, for pooling kernels. Private to their
// .cpp files.
#include <cstdint>

#include <lockstep/tensor/kernels/pool/pool2d.hpp>
#include <lockstep/tensor/view.hpp>

namespace lockstep::detail {

KOKKOS_INLINE_FUNCTION std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// [N,C,OH,OW] of max and average pooling; throws ShapeError, naming the operation, as
/// max_pool2d_shape does.
[[nodiscard]] Shape pool2d_shape(const char* operation, const Shape& x,
                                 const SquareWindow& options);

/// A tensor [N,C,H,W] as (planes, H, W).
template <class Space, class T>
auto planes_of(const Tensor& x) {
  return view<Space, T, 3>(x.reshape({x.size(0) * x.size(1), x.size(2), x.size(3)}));
}

/// Windows of one size at equal distances.
struct StridedWindow {
  std::int64_t kernel, stride, padding;

  explicit StridedWindow(const SquareWindow& o)
      : kernel(o.kernel), stride(o.stride), padding(o.padding) {}

  /// The input positions [begin, end) of window o, without padding; `size` is the input's extent,
  /// `count` the number of windows.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t begin(std::int64_t o, std::int64_t /*size*/,
                                                   std::int64_t /*count*/) const {
    const std::int64_t at = o * stride - padding;
    return at > 0 ? at : 0;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t o, std::int64_t size,
                                                 std::int64_t /*count*/) const {
    return smaller(o * stride - padding + kernel, size);
  }
  /// The windows [first_over, end_over) that reach position i.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t first_over(std::int64_t i, std::int64_t /*size*/,
                                                        std::int64_t /*count*/) const {
    const std::int64_t reach = i + padding - kernel + 1;
    return reach <= 0 ? 0 : (reach + stride - 1) / stride;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end_over(std::int64_t i, std::int64_t /*size*/,
                                                      std::int64_t count) const {
    return smaller((i + padding) / stride + 1, count);
  }
};

/// `count` windows that together cover the input as evenly as may be: window o is
/// [floor(o size / count), ceil((o + 1) size / count)).
struct AdaptiveWindow {
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t begin(std::int64_t o, std::int64_t size,
                                                   std::int64_t count) const {
    return o * size / count;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t o, std::int64_t size,
                                                 std::int64_t count) const {
    return ((o + 1) * size + count - 1) / count;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t first_over(std::int64_t i, std::int64_t size,
                                                        std::int64_t count) const {
    return i * count / size;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end_over(std::int64_t i, std::int64_t size,
                                                      std::int64_t count) const {
    return ((i + 1) * count + size - 1) / size;
  }
};

}  // namespace lockstep::detail
