#include <array>
#include <limits>

#include <lockstep/tensor/kernels/pool/channels_last_packs.hpp>

namespace lockstep {
namespace {

using detail::load_pack;
using detail::OutputRange;
using detail::Pack;
using detail::PacksOfImage;
using detail::PoolDims;

template <int n, class T, class Along, class Space>
void channels_last_max_kernel(const Space& space, const PoolDims<Along>& dims, const Tensor& x,
                              const Tensor& y, const Tensor& places) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  std::uint8_t* const chosen = flat_view<Space, std::uint8_t>(places).data();
  const PacksOfImage<n> from(x), to(y);
  for_each(
      "lockstep::channels_last_max_pool_forward", space, to.count(), KOKKOS_LAMBDA(std::int64_t i) {
        const auto o = to[i];
        Wide best[n];
        Pack<std::uint8_t, n> at{};
        for (Wide& b : best) b = -std::numeric_limits<Wide>::infinity();
        std::uint8_t place = 0;
        for (std::int64_t h = dims.h.begin(o.h); h < dims.h.end(o.h); ++h) {
          for (std::int64_t w = dims.w.begin(o.w); w < dims.w.end(o.w); ++w, ++place) {
            const auto loaded = load_pack<n>(in, from.at(o, h, w));
            for (int e = 0; e < n; ++e) {
              const Wide value = static_cast<Wide>(loaded.values[e]);
              const bool wins = value > best[e] || value != value;
              best[e] = wins ? value : best[e];
              at.values[e] = wins ? place : at.values[e];
            }
          }
        }
        Pack<T, n> largest;
        for (int e = 0; e < n; ++e) largest.values[e] = static_cast<T>(best[e]);
        detail::store_pack(largest, out, i);
        detail::store_pack(at, chosen, i);
      });
}

// Every element of x collects from the windows that contain it: no two threads write to one place.
template <int n, class T, class Along, class Space>
void channels_last_max_backward_kernel(const Space& space, const PoolDims<Along>& dims,
                                       const Tensor& grad_y, const Tensor& places, bool accumulate,
                                       const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const T* const g = flat_view<Space, const T>(grad_y).data();
  const std::uint8_t* const chosen = flat_view<Space, const std::uint8_t>(places).data();
  T* const result = flat_view<Space, T>(grad_x).data();
  const PacksOfImage<n> from(grad_y), to(grad_x);
  for_each(
      "lockstep::channels_last_max_pool_backward", space, to.count(),
      KOKKOS_LAMBDA(std::int64_t i) {
        const auto x = to[i];
        const OutputRange rows = dims.h.outputs_over(x.h), columns = dims.w.outputs_over(x.w);
        std::array<Wide, n> total{};
        if (accumulate) {
          const auto old = load_pack<n>(result, i);
          for (int e = 0; e < n; ++e) total[e] = static_cast<Wide>(old.values[e]);
        }
        for (std::int64_t h = rows.begin; h < rows.end; ++h) {
          for (std::int64_t w = columns.begin; w < columns.end; ++w) {
            const std::int64_t left = dims.w.begin(w), window_width = dims.w.end(w) - left;
            const auto me =
                static_cast<std::uint8_t>((x.h - dims.h.begin(h)) * window_width + x.w - left);
            const std::int64_t window = from.at(x, h, w);
            const auto gradient = load_pack<n>(g, window);
            const auto choice = load_pack<n>(chosen, window);
            for (int e = 0; e < n; ++e) {
              if (choice.values[e] == me) total[e] += static_cast<Wide>(gradient.values[e]);
            }
          }
        }
        Pack<T, n> sums;
        for (int e = 0; e < n; ++e) sums.values[e] = static_cast<T>(total[e]);
        detail::store_pack(sums, result, i);
      });
}

template <class T, class Along, class Space>
void channels_last_take_kernel(const Space& space, const PoolDims<Along>& dims, const Tensor& x,
                               const Tensor& places, const Tensor& y) {
  const T* const in = flat_view<Space, const T>(x).data();
  const std::uint8_t* const chosen = flat_view<Space, const std::uint8_t>(places).data();
  T* const out = flat_view<Space, T>(y).data();
  const PacksOfImage<1> from(x), to(y);
  for_each(
      "lockstep::channels_last_max_pool_take", space, to.count(), KOKKOS_LAMBDA(std::int64_t i) {
        const auto o = to[i];
        const std::int64_t left = dims.w.begin(o.w), window_width = dims.w.end(o.w) - left;
        const std::int64_t row = chosen[i] / window_width, column = chosen[i] - row * window_width;
        out[i] = in[from.at(o, dims.h.begin(o.h) + row, left + column)];
      });
}

}  // namespace

bool fits_channels_last_max_pool(const ImageWindows& windows, const Tensor& x,
                                 const Shape& pooled) {
  // A part of n elements in m has at most ceil(n / m) + 1 of them.
  const auto most = [&](std::size_t d) {
    if (windows) return windows->kernel[d];
    const std::int64_t parts = pooled[static_cast<int>(d) + 1];
    return (x.size(static_cast<int>(d) + 1) + parts - 1) / parts + 1;
  };
  return most(1) <= 256 / most(2);
}

void channels_last_max_pool_forward(const Tensor& x, const ImageWindows& windows, const Tensor& y,
                                    const Tensor& places) {
  detail::with_windows(windows, x, y, [&](const auto& dims) {
    detail::with_packs_of_images("max_pool2d", {&x, &y}, [&]<int n, class T>(const auto& space) {
      channels_last_max_kernel<n, T>(space, dims, x, y, places);
    });
  });
}

void channels_last_max_pool_backward(const Tensor& grad_y, const Tensor& places,
                                     const ImageWindows& windows, bool accumulate,
                                     const Tensor& grad_x) {
  detail::with_windows(windows, grad_x, grad_y, [&](const auto& dims) {
    detail::with_packs_of_images(
        "max_pool2d", {&grad_y, &grad_x}, [&]<int n, class T>(const auto& space) {
          channels_last_max_backward_kernel<n, T>(space, dims, grad_y, places, accumulate, grad_x);
        });
  });
}

void channels_last_max_pool_take(const Tensor& x, const Tensor& places, const ImageWindows& windows,
                                 const Tensor& y) {
  detail::with_windows(windows, x, y, [&](const auto& dims) {
    dispatch(current_stream(x.device()), [&](const auto& space) {
      dispatch_stored(x.dtype(), "max_pool2d",
                      [&]<class T>() { channels_last_take_kernel<T>(space, dims, x, places, y); });
    });
  });
}

}  // namespace lockstep
