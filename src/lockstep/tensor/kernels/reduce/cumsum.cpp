#include <lockstep/tensor/kernels/reduce/cumsum.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <lockstep/tensor/kernels/device_loops.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {
namespace {

/// Several neighbouring rows at once: their sums do not wait for each other.
template <class T, class Space>
void cumsum_kernel(const Space& space, const Shape& shape, const Tensor& x, bool reverse,
                   bool accumulate, const Tensor& y) {
  constexpr std::int64_t together = 16;
  const std::int64_t width = shape[1], inner = shape[2], rows = shape[0] * inner;
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const std::int64_t step = reverse ? -inner : inner, from = reverse ? (width - 1) * inner : 0;
  if (inner >= together) {
    const std::int64_t groups = (inner + together - 1) / together;
    for_each(
        "lockstep::cumsum", space, shape[0] * groups, KOKKOS_LAMBDA(std::int64_t i) {
          const std::int64_t first = i % groups * together;
          const std::int64_t left = inner - first, count = left < together ? left : together;
          std::int64_t at = i / groups * width * inner + first + from;
          double sums[together] = {};
          for (std::int64_t c = 0; c < width; ++c, at += step) {
#pragma omp simd
            for (std::int64_t k = 0; k < count; ++k) {
              sums[k] += static_cast<double>(in(at + k));
              const T sum = static_cast<T>(sums[k]);
              out(at + k) = accumulate ? out(at + k) + sum : sum;
            }
          }
        });
    return;
  }
  constexpr std::int64_t few = 4;
  for_each(
      "lockstep::cumsum", space, (rows + few - 1) / few, KOKKOS_LAMBDA(std::int64_t i) {
        std::int64_t at[few];
        double sums[few] = {};
        const std::int64_t left = rows - i * few, count = left < few ? left : few;
        for (std::int64_t k = 0; k < count; ++k) {
          const std::int64_t r = i * few + k;
          at[k] = r / inner * width * inner + r % inner + from;
        }
        for (std::int64_t c = 0; c < width; ++c) {
          for (std::int64_t k = 0; k < count; ++k) {
            sums[k] += static_cast<double>(in(at[k]));
            const T sum = static_cast<T>(sums[k]);
            out(at[k]) = accumulate ? out(at[k]) + sum : sum;
            at[k] += step;
          }
        }
      });
}

/// Of the c-th element to add of row r, in x[outer, width, inner].
struct PlaceInRow {
  std::int64_t width, inner;
  bool reverse;

  KOKKOS_FUNCTION std::int64_t operator()(std::int64_t r, std::int64_t c) const {
    return (r / inner * width + (reverse ? width - 1 - c : c)) * inner + r % inner;
  }
};

/// Few long rows of x[outer, width, inner] on a GPU: a thread for each part of a row, about as many
/// parts as elements in one. Each begins with the sum of the parts before.
template <class T, class Space>
void cumsum_of_parts(const Space& space, const Shape& shape, const Tensor& x, bool reverse,
                     bool accumulate, const Tensor& y) {
  const std::int64_t width = shape[1], inner = shape[2], rows = shape[0] * inner;
  const auto length =
      std::max<std::int64_t>(256, std::llround(std::sqrt(static_cast<double>(width))));
  const std::int64_t parts = (width + length - 1) / length;
  const Tensor sums = Tensor::empty({rows, parts}, DType::f64, x.device());
  const auto sum_of = view<Space, double, 2>(sums);
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const PlaceInRow place{width, inner, reverse};
  for_each(
      "lockstep::cumsum_parts", space, rows * parts, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t r = i / parts, p = i - r * parts, begin = p * length;
        const std::int64_t end = begin + length < width ? begin + length : width;
        sum_of(r, p) = detail::sums_of_rows<8, double, 1>(begin, end, [&](std::int64_t c) {
          return std::array<double, 1>{static_cast<double>(in(place(r, c)))};
        })[0];
      });
  for_each(
      "lockstep::cumsum_of_parts", space, rows * parts, KOKKOS_LAMBDA(std::int64_t i) {
        constexpr int ahead = 8;
        const std::int64_t r = i / parts, p = i - r * parts, begin = p * length;
        const std::int64_t end = begin + length < width ? begin + length : width;
        double sum = detail::sums_of_rows<ahead, double, 1>(
            0, p, [&](std::int64_t before) { return std::array<double, 1>{sum_of(r, before)}; })[0];
        for (std::int64_t c = begin; c < end; c += ahead) {
          double next[ahead];
          for (int k = 0; k < ahead; ++k)
            next[k] = static_cast<double>(in(place(r, c + k < end ? c + k : c)));
          for (int k = 0; k < ahead && c + k < end; ++k) {
            sum += next[k];
            T& to = out(place(r, c + k));
            to = accumulate ? to + static_cast<T>(sum) : static_cast<T>(sum);
          }
        }
      });
}

}  // namespace

void cumsum(const Tensor& x, int dim, bool reverse, bool accumulate, const Tensor& y) {
  const Shape shape = detail::around(x.shape(), dim);
  if (x.numel() == 0) return;
  const bool is_long = shape[1] > 4096 && shape[0] * shape[2] < 1024;
  const bool in_parts = is_long && math::device_math(x.device()) != nullptr;
  dispatch(current_stream(x.device()), [&](const auto& space) {
    using Space = std::remove_cvref_t<decltype(space)>;
    dispatch_floating(x.dtype(), "cumsum", [&]<class T>() {
      const auto kernel = in_parts ? cumsum_of_parts<T, Space> : cumsum_kernel<T, Space>;
      kernel(space, shape, x, reverse, accumulate, y);
    });
  });
}

}  // namespace lockstep
