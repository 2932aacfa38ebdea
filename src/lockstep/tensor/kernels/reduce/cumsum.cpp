#include <lockstep/tensor/kernels/reduce/cumsum.hpp>

#include <lockstep/tensor/kernels/rows_along.hpp>

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

}  // namespace

void cumsum(const Tensor& x, int dim, bool reverse, bool accumulate, const Tensor& y) {
  const Shape shape = detail::around(x.shape(), dim);
  if (x.numel() == 0) return;
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "cumsum", [&]<class T>() {
      cumsum_kernel<T>(space, shape, x, reverse, accumulate, y);
    });
  });
}

}  // namespace lockstep
