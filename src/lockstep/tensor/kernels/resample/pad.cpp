#include <lockstep/tensor/kernels/resample/pad.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>

namespace lockstep {
namespace {

/// The source of place `i` of a padded dimension; -1: none.
KOKKOS_INLINE_FUNCTION std::int64_t source_of(std::int64_t i, std::int64_t before,
                                              std::int64_t extent, PadMode mode) {
  const std::int64_t at = i - before;
  if (at >= 0 && at < extent) return at;
  switch (mode) {
    case PadMode::constant:
      return -1;
    case PadMode::reflect:
      return at < 0 ? -at : 2 * extent - 2 - at;
    case PadMode::replicate:
      return at < 0 ? 0 : extent - 1;
    case PadMode::circular:
      return at < 0 ? at + extent : at - extent;
  }
  return -1;
}

/// The source of each place of a padded dimension. The memory is kept by the thread.
std::vector<std::int64_t>& places_of_this_thread(std::size_t which) {
  thread_local std::array<std::vector<std::int64_t>, 2> places;
  return places[which];
}

const std::vector<std::int64_t>& places_of(std::size_t which, const Shape& from, const Shape& to,
                                           const PadAmounts& amounts, PadMode mode) {
  auto& places = places_of_this_thread(which);
  const int d = -1 - static_cast<int>(which);
  const bool is_there = to.dims() > static_cast<int>(which);
  places.resize(static_cast<std::size_t>(is_there ? to[d] : 1));
  for (std::size_t i = 0; i < places.size(); ++i) {
    places[i] = is_there
                    ? source_of(static_cast<std::int64_t>(i), amounts.before[which], from[d], mode)
                    : 0;
  }
  return places;
}

/// Calls plane(offset in y, offset in x or -1) for every pair of the last two dimensions.
template <class F>
void for_each_padded_plane(const Shape& from, const Shape& to, const PadAmounts& amounts,
                           PadMode mode, const F& plane) {
  const int outer = std::max(to.dims() - 2, 0);
  std::int64_t planes = 1, area = 1, x_area = 1;
  for (int d = 0; d < to.dims(); ++d) {
    (d < outer ? planes : area) *= to[d];
    if (d >= outer) x_area *= from[d];
  }
  std::array<std::int64_t, Shape::max_dims> index{};
  for (std::int64_t p = 0; p < planes; ++p) {
    std::int64_t x_plane = 0;
    for (int d = 0; d < outer && x_plane >= 0; ++d) {
      const auto back = static_cast<std::size_t>(to.dims() - 1 - d);
      const std::int64_t at =
          source_of(index[static_cast<std::size_t>(d)], amounts.before[back], from[d], mode);
      x_plane = at < 0 ? -1 : x_plane * from[d] + at;
    }
    plane(p * area, x_plane < 0 ? -1 : x_plane * x_area);
    for (int d = outer - 1; d >= 0; --d) {
      if (++index[static_cast<std::size_t>(d)] < to[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
}

/// The part [begin, end) of a padded row that is x's own row, from `first` on.
struct Middle {
  std::int64_t begin, end, first;
  Middle(const Shape& from, const Shape& to, const PadAmounts& amounts)
      : begin(std::clamp<std::int64_t>(amounts.before[0], 0, to[-1])),
        end(std::clamp<std::int64_t>(amounts.before[0] + from[-1], begin, to[-1])),
        first(begin - amounts.before[0]) {}
};

template <class T>
void pad_planes(const HostArray& x, const PadAmounts& amounts, PadMode mode, T value,
                const HostArray& y) {
  const Shape &from = x.shape(), &to = y.shape();
  const Middle middle(from, to, amounts);
  const auto& columns = places_of(0, from, to, amounts, mode);
  const auto& rows = places_of(1, from, to, amounts, mode);
  const auto* const in = static_cast<const T*>(x.data());
  auto* const out = static_cast<T*>(y.data());
  const std::int64_t width = to[-1], extent = from[-1];
  for_each_padded_plane(from, to, amounts, mode, [&](std::int64_t to_plane, std::int64_t plane) {
    T* line = out + to_plane;
    for (const std::int64_t row : rows) {
      if (row < 0 || plane < 0) {
        std::fill_n(line, width, value);
      } else {
        const T* const source = in + plane + row * extent;
        const auto edge = [&](std::int64_t i) {
          const std::int64_t at = columns[static_cast<std::size_t>(i)];
          line[i] = at < 0 ? value : source[at];
        };
        for (std::int64_t i = 0; i < middle.begin; ++i) edge(i);
        std::copy_n(source + middle.first, middle.end - middle.begin, line + middle.begin);
        for (std::int64_t i = middle.end; i < width; ++i) edge(i);
      }
      line += width;
    }
  });
}

/// True for a place of y that holds an element of x itself and not a repeated one.
bool is_own(std::int64_t i, std::int64_t before, std::int64_t extent) {
  return i >= before && i < before + extent;
}

// First x's own elements, each once, so that no zeroing is needed; then the repeated ones.
template <class T, bool accumulate>
void unpad_own(const HostArray& grad_y, const PadAmounts& amounts, const HostArray& grad_x) {
  const Shape &from = grad_x.shape(), &to = grad_y.shape();
  const Middle middle(from, to, amounts);
  const auto& rows = places_of(1, from, to, amounts, PadMode::constant);
  const auto* const in = static_cast<const T*>(grad_y.data());
  auto* const out = static_cast<T*>(grad_x.data());
  const std::int64_t width = to[-1], extent = from[-1], count = middle.end - middle.begin;
  for_each_padded_plane(from, to, amounts, PadMode::constant,
                        [&](std::int64_t from_plane, std::int64_t plane) {
                          if (plane < 0) return;
                          const T* line = in + from_plane + middle.begin;
                          for (const std::int64_t row : rows) {
                            if (row >= 0) {
                              T* const target = out + plane + row * extent + middle.first;
                              if constexpr (accumulate) {
#pragma omp simd
                                for (std::int64_t i = 0; i < count; ++i) target[i] += line[i];
                              } else {
                                std::copy_n(line, count, target);
                              }
                            }
                            line += width;
                          }
                        });
}

template <class T>
void unpad_copies(const HostArray& grad_y, const PadAmounts& amounts, PadMode mode,
                  const HostArray& grad_x) {
  const Shape &from = grad_x.shape(), &to = grad_y.shape();
  const Middle middle(from, to, amounts);
  const auto& columns = places_of(0, from, to, amounts, mode);
  const auto& rows = places_of(1, from, to, amounts, mode);
  const auto* const in = static_cast<const T*>(grad_y.data());
  auto* const out = static_cast<T*>(grad_x.data());
  const std::int64_t width = to[-1], extent = from[-1];
  const bool has_rows = to.dims() > 1;
  // For each plane of y, in order: whether it is a plane of x itself.
  thread_local std::vector<char> own_planes;
  own_planes.clear();
  for_each_padded_plane(
      from, to, amounts, PadMode::constant,
      [&](std::int64_t, std::int64_t plane) { own_planes.push_back(plane >= 0 ? 1 : 0); });
  std::size_t p = 0;
  for_each_padded_plane(from, to, amounts, mode, [&](std::int64_t from_plane, std::int64_t plane) {
    const bool own_plane = own_planes[p++] != 0;
    const T* line = in + from_plane;
    for (std::size_t r = 0; r < rows.size(); ++r, line += width) {
      T* const target = out + plane + rows[r] * extent;
      const bool own = own_plane && (!has_rows || is_own(static_cast<std::int64_t>(r),
                                                         amounts.before[1], from[-2]));
      const auto copy = [&](std::int64_t i) {
        target[columns[static_cast<std::size_t>(i)]] += line[i];
      };
      for (std::int64_t i = 0; i < middle.begin; ++i) copy(i);
      if (!own) {
        T* const to_middle = target + middle.first - middle.begin;
#pragma omp simd
        for (std::int64_t i = middle.begin; i < middle.end; ++i) to_middle[i] += line[i];
      }
      for (std::int64_t i = middle.end; i < width; ++i) copy(i);
    }
  });
}

/// True if some element of x is missing from y.
bool takes_away(const PadAmounts& amounts) {
  const auto negative = [](std::int64_t amount) { return amount < 0; };
  return std::ranges::any_of(amounts.before, negative) ||
         std::ranges::any_of(amounts.behind, negative);
}

/// The places in a padded dimension of the element `source` of x, in ascending order: repeated
/// ones on the left, its own, repeated ones on the right.
struct Places {
  std::int64_t left = 0, left_count = 0, own, right = 0, right_count = 0;
  std::int64_t count;  ///< 0: it was taken away

  KOKKOS_FUNCTION Places(std::int64_t source, std::int64_t before, std::int64_t from,
                         std::int64_t to, PadMode mode)
      : own(before + source) {
    if (mode == PadMode::replicate) {
      left_count = source == 0 ? before : 0;
      right = own + 1;
      right_count = source == from - 1 ? to - right : 0;
    } else if (mode != PadMode::constant) {
      const bool mirrored = mode == PadMode::reflect;
      left = mirrored ? before - source : own - from;
      right = mirrored ? before + 2 * from - 2 - source : own + from;
      left_count = left >= 0 && left < own ? 1 : 0;
      right_count = right < to && right > own ? 1 : 0;
    }
    count = own >= 0 && own < to ? left_count + 1 + right_count : 0;
  }

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t at(std::int64_t k) const {
    if (k < left_count) return left + k;
    return k == left_count ? own : right + (k - left_count - 1);
  }
};

/// Extents for kernels, without the dimensions of which nothing is padded: neighbours among them
/// are one.
struct PaddedExtents {
  struct Level {
    std::int64_t from = 1, to = 1, before = 0;
  };
  Level levels[Shape::max_dims];
  int dims = 0;

  PaddedExtents(const Shape& from, const Shape& to, const PadAmounts& amounts) {
    bool is_open = false;  // the last level takes another dimension without padding
    for (int d = 0; d < to.dims(); ++d) {
      const auto back = static_cast<std::size_t>(to.dims() - 1 - d);
      const std::int64_t before = amounts.before[back];
      const bool is_padded = before != 0 || amounts.behind[back] != 0;
      if (is_padded || !is_open) levels[dims++].before = before;
      Level& level = levels[dims - 1];
      level.from *= from[d];
      level.to *= to[d];
      is_open = !is_padded;
    }
  }
};

// A thread writes one element of y.
template <class T, class Space>
void pad_kernel(const Space& space, const Tensor& x, const PadAmounts& amounts, PadMode mode,
                T value, const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const PaddedExtents extents(x.shape(), y.shape(), amounts);
  for_each(
      "lockstep::pad", space, y.numel(), KOKKOS_LAMBDA(std::int64_t place) {
        std::int64_t left = place, source = 0, stride = 1;
        for (int d = extents.dims - 1; d >= 0 && source >= 0; --d) {
          const auto& level = extents.levels[d];
          const std::int64_t at = source_of(left % level.to, level.before, level.from, mode);
          source = at < 0 ? -1 : source + at * stride;
          left /= level.to;
          stride *= level.from;
        }
        out(place) = source < 0 ? value : in(source);
      });
}

// A thread adds up what one element of x has in y, its own place first, as on the host.
template <class T, class Space>
void unpad_kernel(const Space& space, const Tensor& grad_y, const PadAmounts& amounts, PadMode mode,
                  bool accumulate, const Tensor& grad_x) {
  const auto in = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, T>(grad_x);
  const PaddedExtents extents(grad_x.shape(), grad_y.shape(), amounts);
  for_each(
      "lockstep::pad_backward", space, grad_x.numel(), KOKKOS_LAMBDA(std::int64_t element) {
        const auto places = [&](int d, std::int64_t source) {
          const auto& level = extents.levels[d];
          return Places(source, level.before, level.from, level.to, mode);
        };
        std::int64_t count = 1, own = 0, left = element, stride = 1;
        for (int d = extents.dims - 1; d >= 0; --d) {
          const Places here = places(d, left % extents.levels[d].from);
          count *= here.count;
          own += here.own * stride;
          left /= extents.levels[d].from;
          stride *= extents.levels[d].to;
        }
        T sum = accumulate ? out(element) : T{0};
        if (count > 0) sum = accumulate ? sum + in(own) : in(own);
        for (std::int64_t k = 0; k < count && count > 1; ++k) {
          std::int64_t choice = k, at = 0;
          left = element;
          stride = 1;
          for (int d = extents.dims - 1; d >= 0; --d) {
            const Places here = places(d, left % extents.levels[d].from);
            at += here.at(choice % here.count) * stride;
            choice /= here.count;
            left /= extents.levels[d].from;
            stride *= extents.levels[d].to;
          }
          if (at != own) sum += in(at);
        }
        out(element) = sum;
      });
}

}  // namespace

void pad_forward(const Tensor& x, const PadAmounts& amounts, PadMode mode, double value,
                 const Tensor& y) {
  dispatch_floating(x.dtype(), "pad", [&]<class T>() {
    host_or_kernels(
        "pad",
        [=](const HostArray& from, const HostArray& to) {
          pad_planes(from, amounts, mode, static_cast<T>(value), to);
        },
        [&](const auto& space) {
          pad_kernel<T>(space, x, amounts, mode, static_cast<T>(value), y);
        },
        x, y);
  });
}

void pad_backward(const Tensor& grad_y, const PadAmounts& amounts, PadMode mode, bool accumulate,
                  const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "pad", [&]<class T>() {
    host_or_kernels(
        "pad",
        [=](const HostArray& from, const HostArray& to) {
          const bool add = accumulate || takes_away(amounts);
          if (add && !accumulate) zero<T>(to);
          if (add) {
            unpad_own<T, true>(from, amounts, to);
          } else {
            unpad_own<T, false>(from, amounts, to);
          }
          if (mode != PadMode::constant) unpad_copies<T>(from, amounts, mode, to);
        },
        [&](const auto& space) {
          unpad_kernel<T>(space, grad_y, amounts, mode, accumulate, grad_x);
        },
        grad_y, grad_x);
  });
}

}  // namespace lockstep
