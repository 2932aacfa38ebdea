#include <array>

#include <lockstep/tensor/kernels/pool/channels_last_packs.hpp>

namespace lockstep {
namespace {

using detail::load_pack;
using detail::OutputRange;
using detail::Pack;
using detail::PacksOfImage;
using detail::PartsAlong;
using detail::PoolDims;

/// As MeanDivisor, of a part's elements.
template <class T>
struct PartDivisor {
  [[nodiscard]] KOKKOS_FUNCTION T of(const PoolDims<PartsAlong>& dims, std::int64_t /*i*/,
                                     std::int64_t j, std::int64_t k) const {
    return static_cast<T>(dims.h.elements(j) * dims.w.elements(k));
  }
};

template <int n, class T, class Along, class Sums, class Space>
void channels_last_mean_kernel(const Space& space, const PoolDims<Along>& dims, const Sums& divisor,
                               const Tensor& x, const Tensor& y) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  const PacksOfImage<n> from(x), to(y);
  for_each(
      "lockstep::channels_last_avg_pool_forward", space, to.count(), KOKKOS_LAMBDA(std::int64_t i) {
        const auto o = to[i];
        std::array<Wide, n> total{};
        for (std::int64_t h = dims.h.begin(o.h); h < dims.h.end(o.h); ++h) {
          const auto row = detail::sums_of_rows<8, Wide, n>(
              dims.w.begin(o.w), dims.w.end(o.w), [&](std::int64_t w) {
                const auto loaded = load_pack<n>(in, from.at(o, h, w));
                std::array<Wide, n> found;
                for (int e = 0; e < n; ++e) found[e] = static_cast<Wide>(loaded.values[e]);
                return found;
              });
          for (int e = 0; e < n; ++e) total[e] += row[e];
        }
        const Wide elements = divisor.of(dims, 0, o.h, o.w);
        Pack<T, n> means;
        for (int e = 0; e < n; ++e) means.values[e] = static_cast<T>(total[e] / elements);
        detail::store_pack(means, out, i);
      });
}

// As in a max pool, every element of x collects from the windows that contain it.
template <int n, class T, class Along, class Sums, class Space>
void channels_last_mean_backward_kernel(const Space& space, const PoolDims<Along>& dims,
                                        const Sums& divisor, const Tensor& grad_y, bool accumulate,
                                        const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const T* const g = flat_view<Space, const T>(grad_y).data();
  T* const result = flat_view<Space, T>(grad_x).data();
  const PacksOfImage<n> from(grad_y), to(grad_x);
  for_each(
      "lockstep::channels_last_avg_pool_backward", space, to.count(),
      KOKKOS_LAMBDA(std::int64_t i) {
        const auto x = to[i];
        const OutputRange rows = dims.h.outputs_over(x.h), columns = dims.w.outputs_over(x.w);
        std::array<Wide, n> total{};
        for (std::int64_t h = rows.begin; h < rows.end; ++h) {
          for (std::int64_t w = columns.begin; w < columns.end; ++w) {
            const auto gradient = load_pack<n>(g, from.at(x, h, w));
            const Wide elements = divisor.of(dims, 0, h, w);
            for (int e = 0; e < n; ++e) {
              total[e] += static_cast<Wide>(gradient.values[e]) / elements;
            }
          }
        }
        if (accumulate) {
          const auto old = load_pack<n>(result, i);
          for (int e = 0; e < n; ++e) total[e] = static_cast<Wide>(old.values[e]) + total[e];
        }
        Pack<T, n> sums;
        for (int e = 0; e < n; ++e) sums.values[e] = static_cast<T>(total[e]);
        detail::store_pack(sums, result, i);
      });
}

/// Calls f(dims, divisor) with the PoolDims of the pool's windows and the divisors of their sums.
template <class T, class F>
void with_divisors(const std::optional<AveragePool>& pool, const Tensor& x, const Tensor& y,
                   const F& f) {
  if (pool) {
    f(detail::windows_of(pool->window, x, y), detail::MeanDivisor<SumOf<T>>(*pool));
  } else {
    f(detail::parts_of(x, y), PartDivisor<SumOf<T>>());
  }
}

/// The pixels of each sample as one row, which a thread reads several loads at a time.
Tensor in_one_row(const Tensor& x) {
  return x.with_layout(Layout::plain).reshape({x.size(0), 1, 1, x.size(2) * x.size(3), x.size(4)});
}

}  // namespace

void channels_last_avg_pool_forward(const Tensor& x, const std::optional<AveragePool>& pool,
                                    const Tensor& y) {
  const bool is_global = !pool && y.size(2) * y.size(3) == 1;
  const Tensor in = is_global ? in_one_row(x) : x;
  detail::with_packs_of_images("avg_pool2d", {&in, &y}, [&]<int n, class T>(const auto& space) {
    with_divisors<T>(pool, in, y, [&](const auto& dims, const auto& divisor) {
      channels_last_mean_kernel<n, T>(space, dims, divisor, in, y);
    });
  });
}

void channels_last_avg_pool_backward(const Tensor& grad_y, const std::optional<AveragePool>& pool,
                                     bool accumulate, const Tensor& grad_x) {
  detail::with_packs_of_images(
      "avg_pool2d", {&grad_y, &grad_x}, [&]<int n, class T>(const auto& space) {
        with_divisors<T>(pool, grad_x, grad_y, [&](const auto& dims, const auto& divisor) {
          channels_last_mean_backward_kernel<n, T>(space, dims, divisor, grad_y, accumulate,
                                                   grad_x);
        });
      });
}

}  // namespace lockstep
