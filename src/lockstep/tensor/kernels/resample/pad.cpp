#include <lockstep/tensor/kernels/resample/pad.hpp>

#include <algorithm>
#include <vector>

#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep {
namespace {

/// The source of place `i` of a padded dimension; -1: none.
std::int64_t source_of(std::int64_t i, std::int64_t before, std::int64_t extent, PadMode mode) {
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

}  // namespace

void pad_forward(const Tensor& x, const PadAmounts& amounts, PadMode mode, double value,
                 const Tensor& y) {
  dispatch_floating(x.dtype(), "pad", [&]<class T>() {
    host_task(
        "pad",
        [amounts, mode, value](const HostArray& x, const HostArray& y) {
          pad_planes(x, amounts, mode, static_cast<T>(value), y);
        },
        x, y);
  });
}

void pad_backward(const Tensor& grad_y, const PadAmounts& amounts, PadMode mode, bool accumulate,
                  const Tensor& grad_x) {
  const bool add = accumulate || takes_away(amounts);
  if (add && !accumulate) fill(grad_x, 0.0);
  dispatch_floating(grad_x.dtype(), "pad", [&]<class T>() {
    host_task(
        "pad",
        [amounts, mode, add](const HostArray& grad_y, const HostArray& grad_x) {
          if (add) {
            unpad_own<T, true>(grad_y, amounts, grad_x);
          } else {
            unpad_own<T, false>(grad_y, amounts, grad_x);
          }
          if (mode != PadMode::constant) unpad_copies<T>(grad_y, amounts, mode, grad_x);
        },
        grad_y, grad_x);
  });
}

}  // namespace lockstep
