#include <lockstep/tensor/kernels/elementwise/copy.hpp>

#include <algorithm>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/strided.hpp>

namespace lockstep {
namespace {

using detail::broadcast_strides;
using detail::row_major_strides;
using detail::Run;
using detail::StridedLoop;
using detail::Strides;

/// The stored value: `value`, or its sum with the old one.
template <class T>
KOKKOS_FUNCTION T stored(T there, T value, bool accumulate) {
  using Wide = SumOf<T>;
  return accumulate ? static_cast<T>(static_cast<Wide>(there) + static_cast<Wide>(value)) : value;
}

// Operand 0 of a loop is the source, operand 1 the target. `From`, `To`: their strides in the
// innermost loop, or -1 if known only at run time.
template <class T, int From, int To, class Space>
void rows_kernel(const Space& space, const StridedLoop<2>& loop, const Tensor& source,
                 const Tensor& target, std::int64_t source_start, std::int64_t target_start,
                 bool accumulate) {
  const auto in = flat_view<Space, const T>(source);
  const auto out = flat_view<Space, T>(target);
  const std::int64_t from = From < 0 ? loop.inner_stride(0) : From;
  const std::int64_t to = To < 0 ? loop.inner_stride(1) : To;
  for_each_run(
      "lockstep::copy_rows", space, loop, KOKKOS_LAMBDA(const Run<2>& run) {
        const std::int64_t i = source_start + run.offset[0], o = target_start + run.offset[1];
        const std::int64_t step = From < 0 ? from : From, stride = To < 0 ? to : To;
#pragma omp simd
        for (std::int64_t c = 0; c < run.count; ++c) {
          const T value = in(i + c * step);
          out(o + c * stride) = stored(out(o + c * stride), value, accumulate);
        }
      });
}

// The two innermost loops have opposite orders in source and target. Tiles read and write whole
// cache lines of both.
template <class T, class Space>
void tiles_kernel(const Space& space, const StridedLoop<2>& loop, const Tensor& source,
                  const Tensor& target, bool accumulate) {
  constexpr std::int64_t side = is_host_space<Space> ? 32 : 1, area = side * side;
  const auto in = flat_view<Space, const T>(source);
  const auto out = flat_view<Space, T>(target);
  const int last = loop.dims() - 1;
  const std::int64_t rows = loop.extent(last - 1), columns = loop.extent(last);
  const std::int64_t in_column = loop.stride(0, last), out_row = loop.stride(1, last - 1);
  // Square tiles, or longer ones where the other side is short.
  const std::int64_t width = std::min(columns, std::max(side, area / rows));
  const std::int64_t height = std::min(rows, area / width);
  const std::int64_t down = (rows + height - 1) / height, across = (columns + width - 1) / width;
  for_each(
      "lockstep::copy_tiles", space, loop.rounds(2) * down * across, KOKKOS_LAMBDA(std::int64_t t) {
        const std::int64_t row = t / across % down * height, column = t % across * width;
        const std::int64_t below = rows - row < height ? rows - row : height;
        const std::int64_t right = columns - column < width ? columns - column : width;
        const Run<2> run = loop.begin(t / across / down, 2);
        const std::int64_t i = run.offset[0] + row + column * in_column;
        const std::int64_t o = run.offset[1] + row * out_row + column;
        T tile[area];
        for (std::int64_t c = 0; c < right; ++c) {
#pragma omp simd
          for (std::int64_t r = 0; r < below; ++r) tile[r * width + c] = in(i + c * in_column + r);
        }
        for (std::int64_t r = 0; r < below; ++r) {
#pragma omp simd
          for (std::int64_t c = 0; c < right; ++c) {
            T& element = out(o + r * out_row + c);
            element = stored(element, tile[r * width + c], accumulate);
          }
        }
      });
}

template <class T, class Space>
void strided_copy(const Space& space, StridedLoop<2> loop, const Tensor& source,
                  const Tensor& target, bool accumulate, std::int64_t source_start = 0,
                  std::int64_t target_start = 0) {
  const std::int64_t from = loop.inner_stride(0), to = loop.inner_stride(1);
  if (from <= 1 && to == 1) {
    const auto kernel = from == 1 ? rows_kernel<T, 1, 1, Space> : rows_kernel<T, 0, 1, Space>;
    return kernel(space, loop, source, target, source_start, target_start, accumulate);
  }
  rows_kernel<T, -1, -1>(space, loop, source, target, source_start, target_start, accumulate);
}

/// Moves the loop along which the source is contiguous next to the target's innermost loop.
bool bring_source_rows_inside(StridedLoop<2>& loop) {
  const int last = loop.dims() - 1;
  if (loop.stride(0, last) == 1 || loop.rounds(0) == 0) return false;
  for (int d = 0; d < last; ++d) {
    if (loop.stride(0, d) == 1) {
      loop.exchange(d, last - 1);
      return true;
    }
  }
  return false;
}

/// x as (outer, width of `dim` times inner): narrowing keeps a part of each row.
struct NarrowedRows {
  std::int64_t rows = 1, width = 1, inner = 1;

  NarrowedRows(const Shape& shape, int dim) {
    for (int d = 0; d < shape.dims(); ++d) {
      (d < dim ? rows : width) *= shape[d];
      if (d > dim) inner *= shape[d];
    }
  }
};

}  // namespace

void permute_copy(const Tensor& x, const Dims& dims, bool accumulate, const Tensor& y) {
  const Strides of_x = row_major_strides(x.shape());
  Strides source{};
  for (int d = 0; d < y.dims(); ++d) {
    source[static_cast<std::size_t>(d)] = of_x[static_cast<std::size_t>(dims[d])];
  }
  StridedLoop<2> loop(y.shape(), {source, row_major_strides(y.shape())});
  const bool tiles = bring_source_rows_inside(loop);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "permute", [&]<class T>() {
      if (tiles) {
        tiles_kernel<T>(space, loop, x, y, accumulate);
      } else {
        strided_copy<T>(space, loop, x, y, accumulate);
      }
    });
  });
}

void expand_copy(const Tensor& x, bool accumulate, const Tensor& y) {
  const StridedLoop<2> loop(
      y.shape(), {broadcast_strides(x.shape(), y.shape()), row_major_strides(y.shape())});
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "expand",
                    [&]<class T>() { strided_copy<T>(space, loop, x, y, accumulate); });
  });
}

void narrow_copy(const Tensor& x, int dim, std::int64_t start, bool accumulate, const Tensor& y) {
  const NarrowedRows from(x.shape(), dim), to(y.shape(), dim);
  const StridedLoop<2> loop({to.rows, to.width}, {Strides{from.width, 1}, Strides{to.width, 1}});
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "narrow", [&]<class T>() {
      strided_copy<T>(space, loop, x, y, accumulate, start * from.inner, 0);
    });
  });
}

void narrow_assign(const Tensor& x, int dim, std::int64_t start, bool accumulate, const Tensor& y) {
  const NarrowedRows from(x.shape(), dim), to(y.shape(), dim);
  const StridedLoop<2> loop({from.rows, from.width},
                            {Strides{from.width, 1}, Strides{to.width, 1}});
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "narrow", [&]<class T>() {
      strided_copy<T>(space, loop, x, y, accumulate, 0, start * to.inner);
    });
  });
}

}  // namespace lockstep
