#include <lockstep/tensor/kernels/reduce/reduction.hpp>

#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/strided.hpp>

namespace lockstep {
namespace {

using detail::broadcast_strides;
using detail::row_major_strides;
using detail::StridedLoop;

template <class T>
struct Sum {
  static constexpr T neutral = T{0};
  KOKKOS_FUNCTION static T combine(T a, T b) { return a + b; }
  template <class Lanes, class F>
  KOKKOS_FUNCTION static T row(const Lanes& lanes, const F& f) {
    return lanes.sum(f);
  }
};

template <class T>
struct Max {
  static constexpr T neutral = -std::numeric_limits<T>::infinity();
  KOKKOS_FUNCTION static T combine(T a, T b) {
    const T larger = a > b ? a : b;  // b if b is NaN
    return a != a ? a : larger;
  }
  template <class Lanes, class F>
  KOKKOS_FUNCTION static T row(const Lanes& lanes, const F& f) {
    const T largest = lanes.max(neutral, f);  // ignores NaN: every comparison with it is false
    const T nans = lanes.sum([&](std::int64_t c) { return f(c) == f(c) ? T{0} : T{1}; });
    return nans > T{0} ? std::numeric_limits<T>::quiet_NaN() : largest;
  }
};

constexpr std::int64_t longest_piece = 4096;

/// x[outer, width, inner], reduced along the middle in `pieces` pieces whose lengths differ by at
/// most one.
struct Middle {
  std::int64_t outer, width, inner;

  [[nodiscard]] std::int64_t pieces() const {
    return width <= longest_piece ? 1 : (width + longest_piece - 1) / longest_piece;
  }
};

/// How a result is scaled and stored.
struct Finish {
  double divisor = 1;
  bool accumulate = false;
};

/// Where results go: to elements of T or, if those of 16 bits are not final, of f32.
template <class T, class Space>
struct Target {
  using Wide = SumOf<T>;
  T* results = nullptr;
  Wide* sums = nullptr;

  explicit Target(const Tensor& y) {
    if (y.dtype() == dtype_of<T>) {
      results = flat_view<Space, T>(y).data();
    } else {
      sums = flat_view<Space, Wide>(y).data();
    }
  }
  KOKKOS_FUNCTION void store(std::int64_t i, Wide result, bool accumulate) const {
    if constexpr (sizeof(T) == 2) {
      if (sums) {
        sums[i] = accumulate ? sums[i] + result : result;
        return;
      }
    }
    results[i] = static_cast<T>(accumulate ? static_cast<Wide>(results[i]) + result : result);
  }
};

// inner = 1: a piece of a row is contiguous.
template <class T, class Op, class Space>
void rows_kernel(const Space& space, const Middle& shape, const Tensor& x, const Finish& finish,
                 const Tensor& y) {
  using Wide = SumOf<T>;
  const auto in = flat_view<Space, const T>(x);
  const Target<T, Space> out(y);  // (outer, pieces)
  const std::int64_t width = shape.width, pieces = shape.pieces(), whole = width / pieces;
  const Wide divisor = static_cast<Wide>(finish.divisor);
  const bool accumulate = finish.accumulate;
  for_each_row(
      "lockstep::reduce_rows", space, shape.outer * pieces, whole,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t row = r / pieces, piece = r % pieces;
        const std::int64_t begin = row * width + piece * width / pieces;
        const std::int64_t end = row * width + (piece + 1) * width / pieces;
        Wide result = Op::neutral;
        if (is_host_space<Space> && whole < 16) {  // most lanes would be idle
          for (std::int64_t c = begin; c < begin + whole; ++c) {
            result = Op::combine(result, static_cast<Wide>(in(c)));
          }
        } else {
          result = Op::row(lanes, [&](std::int64_t c) { return static_cast<Wide>(in(begin + c)); });
        }
        if (end - begin > whole) result = Op::combine(result, static_cast<Wide>(in(end - 1)));
        lanes.once([&] { out.store(r, result / divisor, accumulate); });
      });
}

// inner > 1: columns side by side, in memory order, 64 rows at a time.
template <class T, class Op, class Space>
void columns_kernel(const Space& space, const Middle& shape, const Tensor& x, const Finish& finish,
                    const Tensor& y) {
  constexpr std::int64_t columns = is_host_space<Space> ? 256 : 1, block = 64;
  using Wide = SumOf<T>;
  const auto in = flat_view<Space, const T>(x);
  const Target<T, Space> out(y);  // (outer, pieces, inner)
  const std::int64_t width = shape.width, inner = shape.inner, pieces = shape.pieces();
  const std::int64_t strips = (inner + columns - 1) / columns;
  const Wide divisor = static_cast<Wide>(finish.divisor);
  const bool accumulate = finish.accumulate;
  for_each(
      "lockstep::reduce_columns", space, shape.outer * pieces * strips,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t strip = i % strips, r = i / strips, row = r / pieces, piece = r % pieces;
        const std::int64_t end = row * width + (piece + 1) * width / pieces;
        const std::int64_t first = strip * columns;
        const std::int64_t count = inner - first < columns ? inner - first : columns;
        Wide total[columns];
        for (std::int64_t c = 0; c < count; ++c) total[c] = Op::neutral;
        for (std::int64_t b = row * width + piece * width / pieces; b < end; b += block) {
          const std::int64_t block_end = b + block < end ? b + block : end;
          Wide part[columns];
          for (std::int64_t c = 0; c < count; ++c) part[c] = Op::neutral;
          std::int64_t k = b;
          for (; k + 4 <= block_end;
               k += 4) {  // a partial result is read and written once for four rows
            const std::int64_t at = k * inner + first;
#pragma omp simd
            for (std::int64_t c = 0; c < count; ++c) {
              const auto row = [&](std::int64_t i) {
                return static_cast<Wide>(in(at + i * inner + c));
              };
              const Wide two = Op::combine(row(0), row(1)), more = Op::combine(row(2), row(3));
              part[c] = Op::combine(part[c], Op::combine(two, more));
            }
          }
          for (; k < block_end; ++k) {
            for (std::int64_t c = 0; c < count; ++c) {
              part[c] = Op::combine(part[c], static_cast<Wide>(in(k * inner + first + c)));
            }
          }
          for (std::int64_t c = 0; c < count; ++c) total[c] = Op::combine(total[c], part[c]);
        }
        for (std::int64_t c = 0; c < count; ++c) {
          out.store(r * inner + first + c, total[c] / divisor, accumulate);
        }
      });
}

template <class T, class Op, class Space>
void reduce_middle(const Space& space, const Middle& shape, const Tensor& x, const Finish& finish,
                   const Tensor& y) {
  using Wide = SumOf<T>;
  if (is_half(y.dtype()) && sizeof(T) != 2) {  // the pass after one that made sums
    const Tensor sums = Tensor::empty(y.shape(), dtype_of<T>, y.device());
    reduce_middle<T, Op>(space, shape, x, {finish.divisor, false}, sums);
    return finish.accumulate ? add_scaled(sums, 1.0, y) : convert(sums, y);
  }
  const std::int64_t pieces = shape.pieces();
  const Tensor result =
      pieces == 1 ? y
                  : Tensor::empty({shape.outer, pieces, shape.inner}, dtype_of<Wide>, x.device());
  const auto kernel = shape.inner == 1 ? rows_kernel<T, Op, Space> : columns_kernel<T, Op, Space>;
  kernel(space, shape, x, pieces == 1 ? finish : Finish{}, result);
  if (pieces > 1) {
    reduce_middle<Wide, Op>(space, {shape.outer, pieces, shape.inner}, result, finish, y);
  }
}

// Reduces one group of neighbouring dimensions after another, the innermost first.
template <class T, class Op, class Space>
void reduce(const Space& space, const Tensor& x, const Finish& finish, const Tensor& y) {
  if (x.numel() == 0) {
    return reduce_middle<T, Op>(space, {y.numel(), 0, 1}, x, finish, y);
  }
  const StridedLoop<2> loop(
      x.shape(), {row_major_strides(x.shape()), broadcast_strides(y.shape(), x.shape())});
  std::array<int, Shape::max_dims> reduced{};
  int groups = 0;
  for (int d = 0; d < loop.dims(); ++d) {
    if (loop.stride(1, d) == 0) reduced[static_cast<std::size_t>(groups++)] = d;
  }
  if (groups == 0) return reduce_middle<T, Op>(space, {1, 1, x.numel()}, x, finish, y);

  Tensor rest = x;
  std::int64_t inner = 1;  // product of the kept extents after the group
  int d = loop.dims() - 1;
  while (groups-- > 0) {
    const int group = reduced[static_cast<std::size_t>(groups)];
    for (; d > group; --d) inner *= loop.extent(d);
    --d;
    const Middle shape{rest.numel() / (loop.extent(group) * inner), loop.extent(group), inner};
    const Tensor result =
        groups == 0 ? y : Tensor::empty({shape.outer, inner}, dtype_of<SumOf<T>>, x.device());
    const bool is_first = rest.dtype() == dtype_of<T>;
    const auto middle = is_first ? reduce_middle<T, Op, Space> : reduce_middle<SumOf<T>, Op, Space>;
    middle(space, shape, rest, groups == 0 ? finish : Finish{}, result);
    rest = result;
  }
}

}  // namespace

void reduce_sum(const Tensor& x, double divisor, bool accumulate, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "sum", [&]<class T>() {
      reduce<T, Sum<SumOf<T>>>(space, x, {divisor, accumulate}, y);
    });
  });
}

void reduce_max(const Tensor& x, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "amax", [&]<class T>() { reduce<T, Max<T>>(space, x, {}, y); });
  });
}

}  // namespace lockstep
