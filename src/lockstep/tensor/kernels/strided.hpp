#pragma once
// How kernels walk over operands that differ in strides: repeated, permuted or sliced ones.
#include <array>
#include <utility>

#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {

/// Distances in elements between neighbours along each dimension, outermost first.
using Strides = std::array<std::int64_t, Shape::max_dims>;

/// The strides of a tensor of `shape` broadcast to `full`: 0 where it is repeated.
inline Strides broadcast_strides(const Shape& shape, const Shape& full) {
  Strides strides{};
  std::int64_t stride = 1;
  for (int d = 1; d <= shape.dims(); ++d) {
    const bool repeated = shape[-d] == 1 && full[-d] != 1;
    strides[static_cast<std::size_t>(full.dims() - d)] = repeated ? 0 : stride;
    stride *= shape[-d];
  }
  return strides;
}

/// The strides of a tensor itself.
inline Strides row_major_strides(const Shape& shape) { return broadcast_strides(shape, shape); }

/// The start of a piece of the innermost loop in each operand, and its length.
template <int N>
struct Run {
  std::int64_t offset[N] = {};
  std::int64_t count = 0;
};

/// Loops over all elements of N operands at once. Dimensions of extent 1 are dropped, and
/// neighbours that every operand sees as one are merged; one dimension at least remains.
template <int N>
class StridedLoop {
 public:
  StridedLoop(const Shape& extents, const std::array<Strides, N>& strides) {
    for (int d = 0; d < extents.dims(); ++d) {
      if (extents[d] == 1) continue;
      Level level{extents[d], {}};
      for (int k = 0; k < N; ++k) level.stride[k] = at(at(strides, k), d);
      if (dims_ > 0 && continues(levels_[dims_ - 1], level)) {
        level.extent *= levels_[--dims_].extent;
      }
      levels_[dims_++] = level;
    }
    if (dims_ == 0) {
      levels_[dims_++].extent = 1;
      for (auto& stride : levels_[0].stride) stride = 1;
    }
  }

  [[nodiscard]] KOKKOS_FUNCTION int dims() const { return dims_; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t extent(int d) const { return levels_[d].extent; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t stride(int operand, int d) const {
    return levels_[d].stride[operand];
  }
  [[nodiscard]] std::int64_t inner_extent() const { return extent(dims_ - 1); }
  [[nodiscard]] std::int64_t inner_stride(int operand) const { return stride(operand, dims_ - 1); }

  /// Exchanges two loops.
  void exchange(int d, int e) { std::swap(levels_[d], levels_[e]); }

  /// How often the loops but the innermost `inner` run.
  [[nodiscard]] std::int64_t rounds(int inner = 1) const {
    std::int64_t n = 1;
    for (int d = 0; d < dims_ - inner; ++d) n *= levels_[d].extent;
    return n;
  }
  /// The start of round `r`, by division of Index numbers, which r fits into.
  template <class Index = std::int64_t>
  [[nodiscard]] KOKKOS_FUNCTION Run<N> begin(Index r, int inner = 1) const {
    Run<N> run;
    for (int d = dims_ - inner - 1; d >= 0; --d) {
      const auto extent = static_cast<Index>(levels_[d].extent);
      const Index i = d > 0 ? r % extent : r;
      if (d > 0) r /= extent;
      for (int k = 0; k < N; ++k)
        run.offset[k] += static_cast<std::int64_t>(i) * levels_[d].stride[k];
    }
    return run;
  }

 private:
  struct Level {
    std::int64_t extent = 0;
    std::int64_t stride[N] = {};
  };

  template <class Array>
  static const auto& at(const Array& array, int i) {
    return array[static_cast<std::size_t>(i)];
  }
  static bool continues(const Level& outer, const Level& inner) {
    for (int k = 0; k < N; ++k) {
      if (outer.stride[k] != inner.stride[k] * inner.extent) return false;
    }
    return true;
  }

  Level levels_[Shape::max_dims];
  int dims_ = 0;
};

/// Calls f for element i alone. A GPU divides numbers of 32 bits much faster than those of 64.
template <int N, class F>
struct SingleElements {
  StridedLoop<N> loop;
  F f;
  bool is_small;

  SingleElements(const StridedLoop<N>& over, const F& call)
      : loop(over), f(call), is_small(over.rounds(0) <= std::int64_t{0x7FFFFFFF}) {}
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    Run<N> run = is_small ? loop.begin(static_cast<std::uint32_t>(i), 0) : loop.begin(i, 0);
    run.count = 1;
    f(run);
  }
};

/// The loop of for_each_run.
class ForEachRun {
 public:
  template <int N, class Space, class F>
  [[gnu::noinline]] static void run(const char* label, const Space& space,
                                    const StridedLoop<N>& loop, const F& f) {
    if (loop.rounds(0) == 0) return;
    if constexpr (is_host_space<Space>) {
      in_pieces(label, space, loop, f);
    } else {
      for_each_here(label, space, loop.rounds(0), SingleElements<N, F>(loop, f));
    }
  }

 private:
  template <int N, class Space, class F>
  static void in_pieces(const char* label, const Space& space, const StridedLoop<N>& loop,
                        const F& f) {
    constexpr std::int64_t share = 4096;
    const int last = loop.dims() - 1;
    const std::int64_t width = loop.extent(last), rows = last > 0 ? loop.extent(last - 1) : 1;
    const std::int64_t length = width < share ? width : share,
                       pieces = (width + length - 1) / length;
    const std::int64_t together = share / length, groups = (rows + together - 1) / together;
    for_each_here(label, space, loop.rounds(2) * groups * pieces, [=](std::int64_t i) {
      const std::int64_t piece = i % pieces, first = i / pieces % groups * together;
      const std::int64_t end = first + together < rows ? first + together : rows;
      Run<N> run = loop.begin(i / pieces / groups, 2);
      const std::int64_t left = width - piece * length;
      run.count = left < length ? left : length;
      for (int k = 0; k < N; ++k) {
        run.offset[k] += piece * length * loop.stride(k, last);
        if (last > 0) run.offset[k] += first * loop.stride(k, last - 1);
      }
      for (std::int64_t r = first; r < end; ++r) {
        f(run);
        if (last == 0) continue;
        for (int k = 0; k < N; ++k) run.offset[k] += loop.stride(k, last - 1);
      }
    });
  }
};

/// f(run) for every piece of the innermost loop. On the host a thread takes about 4096 elements at
/// a time: a piece of one long loop, or several short loops, whose starts are then a few additions
/// apart. On a device it takes one element, so that neighbours belong to neighbouring threads.
template <int N, class Space, class F>
void for_each_run(const char* label, const Space& space, const StridedLoop<N>& loop, const F& f) {
  launch_or_hand_over<Space, ForEachRun>(label, space, loop, f);
}

}  // namespace lockstep::detail
