#pragma once
// A tensor seen along one of its dimensions, as softmax and its relatives walk over it. Private to
// the kernels' .cpp files.
#include <lockstep/tensor/dims.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep::detail {

/// The extent of dimension `dim`, which resolve_dim takes; a scalar's is 1.
inline std::int64_t extent_along(const Shape& shape, int dim) {
  return shape.dims() == 0 ? 1 : shape[dim];
}

/// x[..., dim, ...] as (outer, width, inner): outer * inner rows along the middle; a scalar is one
/// row of one element.
inline Shape around(const Shape& shape, int dim) {
  const int d = resolve_dim(shape, dim);
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < shape.dims(); ++i) (i < d ? outer : inner) *= i == d ? 1 : shape[i];
  return {outer, extent_along(shape, d), inner};
}

/// Rows of elements side by side, on a GPU or its stand-in: for kernels that read packs
/// (packed_row.hpp).
inline bool are_device_rows(const Tensor& t, int dim) {
  return math::device_math(t.device()) != nullptr && around(t.shape(), dim)[2] == 1;
}
/// As [rows, width].
inline Tensor as_device_rows(const Tensor& t, int dim) {
  const Shape shape = around(t.shape(), dim);
  return t.reshape({shape[0], shape[1]});
}

/// Element c of row r; a row's elements are `inner` apart, or, if that is known at compile time,
/// contiguous.
template <class T, class Space, bool contiguous>
struct Rows {
  using View = decltype(flat_view<Space, T>(Tensor()));
  View elements;
  std::int64_t width, inner;

  Rows(const Tensor& t, const Shape& shape)
      : elements(flat_view<Space, T>(t)), width(shape[1]), inner(shape[2]) {}
  KOKKOS_FUNCTION T& operator()(std::int64_t r, std::int64_t c) const {
    if constexpr (contiguous) return elements(r * width + c);
    return elements((r / inner * width + c) * inner + r % inner);
  }
};

/// Sets row r of `rows` to f(c), which is SumOf<T>.
template <class T, class Space, bool contiguous, class F>
KOKKOS_FUNCTION void write_row(const Lanes<Space>& lanes, const Rows<T, Space, contiguous>& rows,
                               std::int64_t r, bool around, const F& f) {
  if constexpr (contiguous) {
    lanes.write(std::array{&rows(r, 0)}, around,
                [&](auto, std::int64_t c) { return static_cast<T>(f(c)); });
  } else {
    lanes.each([&](std::int64_t c) { rows(r, c) = static_cast<T>(f(c)); });
  }
}

template <class T, class Space, class F>
void call_for_rows(const Space& space, const Shape& shape, const F& f) {
  if (shape[2] == 1) {
    f.template operator()<true, T>(space, shape);
  } else {
    f.template operator()<false, T>(space, shape);
  }
}

/// Calls f.template operator()<contiguous, T>(space, shape) for `like` along `dim`; f32 or f64.
template <class F>
void dispatch_rows(const char* operation, const Tensor& like, int dim, const F& f) {
  const Shape shape = around(like.shape(), dim);
  dispatch(current_stream(like.device()), [&](const auto& space) {
    dispatch_floating(like.dtype(), operation,
                      [&]<class T>() { call_for_rows<T>(space, shape, f); });
  });
}

/// The same for kernels that store 16 bits too.
template <class F>
void dispatch_stored_rows(const char* operation, const Tensor& like, int dim, const F& f) {
  const Shape shape = around(like.shape(), dim);
  dispatch(current_stream(like.device()), [&](const auto& space) {
    dispatch_stored(like.dtype(), operation, [&]<class T>() { call_for_rows<T>(space, shape, f); });
  });
}

}  // namespace lockstep::detail
