#pragma once
// Sorting on devices. Private to the kernels' .cpp files.
#include <algorithm>
#include <cstdint>
#include <utility>

#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {

/// Whether a belongs in front of b whatever their places: NaN is larger than everything.
template <class T>
KOKKOS_FUNCTION bool comes_before(T a, T b, bool descending) {
  const bool a_is_nan = a != a, b_is_nan = b != b;
  if (descending) return a > b || (a_is_nan && !b_is_nan);
  return a < b || (b_is_nan && !a_is_nan);
}

/// Elements of rows, and where each was in its row; both [rows, width].
template <class T>
struct SortedRuns {
  Tensor values, places;
  SortedRuns(std::int64_t rows, std::int64_t width, Device device)
      : values(Tensor::empty({rows, width}, dtype_of<T>, device)),
        places(Tensor::empty({rows, width}, DType::i64, device)) {}
};

/// The length of the runs that are sorted by comparing each element with the others of its run.
inline constexpr std::int64_t first_run = 32;

// Of x[outer, width, inner], with rows along the middle. A thread finds the place of one element in
// its run: the number of those that belong in front of it.
template <class T, class Space>
void sort_runs_kernel(const Space& space, const Tensor& x, const Shape& shape, bool descending,
                      const SortedRuns<T>& sorted) {
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(sorted.values);
  const auto places = flat_view<Space, std::int64_t>(sorted.places);
  const std::int64_t width = shape[1], inner = shape[2];
  for_each(
      "lockstep::sort_runs", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t r = i / width, me = i % width;
        const std::int64_t row = r / inner * width * inner + r % inner;
        const std::int64_t begin = me / first_run * first_run;
        const std::int64_t end = begin + first_run < width ? begin + first_run : width;
        const T mine = in(row + me * inner);
        std::int64_t rank = 0;
        for (std::int64_t c = begin; c < me; ++c) {
          if (!comes_before(mine, in(row + c * inner), descending)) ++rank;
        }
        for (std::int64_t c = me + 1; c < end; ++c) {
          if (comes_before(in(row + c * inner), mine, descending)) ++rank;
        }
        out(r * width + begin + rank) = mine;
        places(r * width + begin + rank) = me;
      });
}

// Merges neighbouring runs of `run` elements. A thread moves one element behind those of the other
// run that belong in front of it, which a binary search counts. The first `count` elements of a run
// are sorted; nobody reads the others.
template <class T, class Space>
void merge_runs_kernel(const Space& space, const SortedRuns<T>& from, std::int64_t run,
                       bool descending, std::int64_t count, const SortedRuns<T>& to) {
  const auto in = flat_view<Space, const T>(from.values);
  const auto in_places = flat_view<Space, const std::int64_t>(from.places);
  const auto out = flat_view<Space, T>(to.values);
  const auto out_places = flat_view<Space, std::int64_t>(to.places);
  const std::int64_t width = from.values.size(1);
  for_each(
      "lockstep::merge_runs", space, from.values.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t row = i / width * width, me = i % width;
        const std::int64_t begin = me / run * run, mine = me - begin;
        if (mine >= count) return;
        const bool is_left = begin / run % 2 == 0;
        const std::int64_t pair = is_left ? begin : begin - run;
        const std::int64_t other = is_left ? begin + run : pair;
        const std::int64_t rest = other < width ? width - other : 0;
        std::int64_t high = rest < run ? rest : run;
        if (count < high) high = count;
        const T value = in(row + me);
        std::int64_t low = 0;
        while (low < high) {
          const std::int64_t middle = low + (high - low) / 2;
          const T there = in(row + other + middle);
          // Among equals the left run comes first.
          const bool is_before = is_left ? comes_before(there, value, descending)
                                         : !comes_before(value, there, descending);
          if (is_before) {
            low = middle + 1;
          } else {
            high = middle;
          }
        }
        if (mine + low >= count) return;
        out(row + pair + mine + low) = value;
        out_places(row + pair + mine + low) = in_places(row + me);
      });
}

// The first `count` of each row as [outer, count, inner].
template <class T, class Space>
void take_first_kernel(const Space& space, const SortedRuns<T>& sorted, const Shape& shape,
                       std::int64_t count, const Tensor& values, const Tensor& indices) {
  const auto in = flat_view<Space, const T>(sorted.values);
  const auto in_places = flat_view<Space, const std::int64_t>(sorted.places);
  const auto out = flat_view<Space, T>(values);
  const auto out_places = flat_view<Space, std::int64_t>(indices);
  const std::int64_t width = shape[1], inner = shape[2];
  for_each(
      "lockstep::sort_result", space, values.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t c = i / inner % count, r = i / inner / count * inner + i % inner;
        out(i) = in(r * width + c);
        out_places(i) = in_places(r * width + c);
      });
}

/// The rows of x[outer, width, inner] sorted, the first `count` elements of each. A merge sort from
/// runs of `first_run` on: 2 + ceil(log2(width / first_run)) kernels with a thread an element,
/// which makes first_run comparisons in the first and log2(run) in each merge; only the first
/// `count` elements of a run take part in one. Memory for two copies of x and its indices.
template <class T, class Space>
[[nodiscard]] SortedRuns<T> sorted_rows(const Space& space, const Tensor& x, const Shape& shape,
                                        bool descending, std::int64_t count) {
  const std::int64_t rows = shape[0] * shape[2], width = shape[1];
  SortedRuns<T> sorted(rows, width, x.device());
  sort_runs_kernel(space, x, shape, descending, sorted);
  if (width > first_run) {
    SortedRuns<T> next(rows, width, x.device());
    for (std::int64_t run = first_run; run < width; run *= 2) {
      merge_runs_kernel(space, sorted, run, descending, count, next);
      std::swap(sorted, next);
    }
  }
  return sorted;
}

/// The first `count` elements of each sorted row of x[outer, width, inner], and where they were.
template <class T, class Space>
void order_kernels(const Space& space, const Tensor& x, const Shape& shape, bool descending,
                   std::int64_t count, const Tensor& values, const Tensor& indices) {
  const SortedRuns<T> sorted = sorted_rows<T>(space, x, shape, descending, count);
  take_first_kernel(space, sorted, shape, count, values, indices);
}

}  // namespace lockstep::detail
