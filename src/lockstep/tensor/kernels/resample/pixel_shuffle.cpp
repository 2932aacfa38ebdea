#include <lockstep/tensor/kernels/resample/pixel_shuffle.hpp>

#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>

namespace lockstep {
namespace {

/// wide[w r + j] = narrow[w], or back.
template <class T, bool shuffle>
void move_row(T* wide, T* narrow, std::int64_t width, std::int64_t r, bool accumulate) {
#pragma omp simd
  for (std::int64_t w = 0; w < width; ++w) {
    T& to = shuffle ? wide[w * r] : narrow[w];
    const T from = shuffle ? narrow[w] : wide[w * r];
    to = accumulate ? to + from : from;
  }
}

/// Both parts of a row together, so that it is read or written once.
template <class T, bool shuffle>
void move_pair(T* wide, T* first, T* second, std::int64_t width) {
#pragma omp simd
  for (std::int64_t w = 0; w < width; ++w) {
    if constexpr (shuffle) {
      wide[2 * w] = first[w];
      wide[2 * w + 1] = second[w];
    } else {
      first[w] = wide[2 * w];
      second[w] = wide[2 * w + 1];
    }
  }
}

template <class T, bool shuffle>
void move_planes(const HostArray& parts, bool accumulate, const HostArray& planes) {
  const std::int64_t count = parts.size(0), r = parts.size(1), height = parts.size(3),
                     width = parts.size(4), area = height * width;
  auto* wide = static_cast<T*>(planes.data());
  auto* const narrow = static_cast<T*>(parts.data());
  for (std::int64_t p = 0; p < count; ++p) {
    for (std::int64_t h = 0; h < height; ++h) {
      for (std::int64_t i = 0; i < r; ++i, wide += width * r) {
        T* const row = narrow + (p * r + i) * r * area + h * width;
        if (r == 2 && !accumulate) {
          move_pair<T, shuffle>(wide, row, row + area, width);
          continue;
        }
        for (std::int64_t j = 0; j < r; ++j)
          move_row<T, shuffle>(wide + j, row + j * area, width, r, accumulate);
      }
    }
  }
}

// A thread moves one element.
template <class T, bool shuffle, class Space>
void move_kernel(const Space& space, const Tensor& parts, bool accumulate, const Tensor& planes) {
  const auto from = flat_view<Space, const T>(shuffle ? parts : planes);
  const auto to = flat_view<Space, T>(shuffle ? planes : parts);
  const std::int64_t r = parts.size(1), height = parts.size(3), width = parts.size(4);
  for_each(
      shuffle ? "lockstep::pixel_shuffle" : "lockstep::pixel_unshuffle", space, parts.numel(),
      KOKKOS_LAMBDA(std::int64_t wide) {
        const std::int64_t row = wide / (width * r), column = wide % (width * r);
        const std::int64_t plane = row / (height * r), h = row % (height * r);
        const std::int64_t part = (plane * r + h % r) * r + column % r;
        const std::int64_t narrow = (part * height + h / r) * width + column / r;
        const T value = from(shuffle ? narrow : wide);
        T& place = to(shuffle ? wide : narrow);
        place = accumulate ? place + value : value;
      });
}

template <bool shuffle>
void move(const Tensor& parts, bool accumulate, const Tensor& planes) {
  const char* const name = shuffle ? "pixel_shuffle" : "pixel_unshuffle";
  dispatch_floating(parts.dtype(), name, [&]<class T>() {
    host_or_kernels(
        name,
        [accumulate](const HostArray& narrow, const HostArray& wide) {
          move_planes<T, shuffle>(narrow, accumulate, wide);
        },
        [&](const auto& space) { move_kernel<T, shuffle>(space, parts, accumulate, planes); },
        parts, planes);
  });
}

}  // namespace

void pixel_shuffle_copy(const Tensor& x, bool accumulate, const Tensor& y) {
  move<true>(x, accumulate, y);
}

void pixel_unshuffle_copy(const Tensor& y, bool accumulate, const Tensor& x) {
  move<false>(x, accumulate, y);
}

}  // namespace lockstep
