#pragma once
// A part of for_each.hpp. Empty unless nvcc compiles it.
#include <utility>

#include <lockstep/tensor/kernels/for_each.hpp>

#if defined(KOKKOS_ENABLE_CUDA) && defined(__CUDACC__)

namespace lockstep {

/// A team of a GPU's threads. Thread t takes the columns t, t + team size, ...; it reads for
/// several of them before it needs the first, as a multiprocessor must have some 16 KiB of reads
/// under way to use all of the memory's speed.
template <>
class Lanes<Kokkos::Cuda> {
 public:
  using Member = Kokkos::TeamPolicy<Kokkos::Cuda>::member_type;

  /// Threads for a row: eight columns each, in whole warps. 256 fit, however many registers a
  /// kernel takes.
  [[nodiscard]] static int team_size(std::int64_t width) {
    const std::int64_t warps = (width + ahead * warp - 1) / (ahead * warp);
    return warps < 1 ? warp : (warps < most / warp ? static_cast<int>(warps) * warp : most);
  }

  KOKKOS_FUNCTION Lanes(const Member& member, std::int64_t width)
      : member_(member), width_(width) {}

  KOKKOS_FUNCTION Lanes of_width(std::int64_t width) const { return Lanes(member_, width); }

  template <class T>
  KOKKOS_FUNCTION const Lanes& fetching(const T*) const {
    return *this;
  }

  // A reduction is a barrier, too: each thread then sees what the others have written before.
  template <class F>
  KOKKOS_FUNCTION auto sum(const F& f) const {
    using T = decltype(f(std::int64_t{}));
    T total{0};
    in_strips<ahead>([&](std::int64_t c) { total += f(c); });
    return of_all_threads(total, Plus());
  }
  template <class T, std::size_t n, class F>
  KOKKOS_FUNCTION std::array<T, n> sums(const F& f) const {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      T totals[n] = {};
      in_strips<fewer<n>>([&](std::int64_t c) { ((totals[k] += f(Constant<k>(), c)), ...); });
      return std::array<T, n>{of_all_threads(totals[k], Plus())...};
    }
    (std::make_index_sequence<n>());
  }

  template <class T, class F>
  KOKKOS_FUNCTION T max(T least, const F& f) const {
    T best = least;
    in_strips<ahead>([&](std::int64_t c) { best = Larger()(best, f(c)); });
    return of_all_threads(best, Larger());
  }

  template <class F>
  KOKKOS_FUNCTION void each(const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, width_), f);
  }

  template <class T, std::size_t n, class F>
  KOKKOS_FUNCTION void write(const std::array<T*, n>& rows, bool /*around*/, const F& f) const {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      const std::int64_t step = member_.team_size();
      by_strips<fewer<n>>(member_.team_rank(), [&]<int strip>(Strip<strip>, std::int64_t c) {
        T values[n][strip];
        for (int i = 0; i < strip; ++i) ((values[k][i] = f(Constant<k>(), c + i * step)), ...);
        for (int i = 0; i < strip; ++i) ((rows[k][c + i * step] = values[k][i]), ...);
      });
    }
    (std::make_index_sequence<n>());
  }

  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerTeam(member_), f);
  }

  template <class State, class Load, class F>
  KOKKOS_FUNCTION State fold(State state, const Load& load, const F& f) const {
    with_loads(load, [&](std::int64_t c, const auto& loaded) { f(state, c, loaded); });
    return state;
  }
  template <class Load, class F>
  KOKKOS_FUNCTION void each(const Load& load, const F& f) const {
    with_loads(load, f);
  }
  template <class T>
  KOKKOS_FUNCTION T all_sum(T value) const {
    return of_all_threads(value, Plus());
  }
  template <class T>
  KOKKOS_FUNCTION T all_max(T value) const {
    return of_all_threads(value, Larger());
  }

 private:
  /// Columns that a thread reads for at a time, of one result and of n.
  static constexpr int ahead = 8;
  static constexpr int warp = 32, most = 256;  // threads
  template <std::size_t n>
  static constexpr int fewer = n < ahead ? ahead / static_cast<int>(n) : 1;

  template <int n>
  using Strip = std::integral_constant<int, n>;

  /// f(c) for this thread's columns, `strip` at a time. f writes to registers only.
  template <int strip, class F>
  KOKKOS_FUNCTION void in_strips(const F& f) const {
    const std::int64_t step = member_.team_size();
    by_strips<strip>(member_.team_rank(), [&]<int n>(Strip<n>, std::int64_t c) {
      for (int i = 0; i < n; ++i) f(c + i * step);
    });
  }
  /// f(Strip<n>(), c) for n of this thread's columns at a time, of which c, from `begin` on, is
  /// the first: `strip` of them, then ever fewer. A row of 768 numbers has less than eight columns
  /// a thread.
  template <int strip, class F>
  KOKKOS_FUNCTION void by_strips(std::int64_t begin, const F& f) const {
    const std::int64_t step = member_.team_size();
    std::int64_t c = begin;
    for (; c + (strip - 1) * step < width_; c += strip * step) f(Strip<strip>(), c);
    if constexpr (strip > 1) by_strips<strip / 2>(c, f);
  }

  /// f(c, load(c)) for this thread's columns, with up to 64 bytes of loads before the first f.
  template <class Load, class F>
  KOKKOS_FUNCTION void with_loads(const Load& load, const F& f) const {
    using Loaded = decltype(load(std::int64_t{}));
    constexpr int strip = sizeof(Loaded) <= 16 ? 4 : sizeof(Loaded) <= 32 ? 2 : 1;
    const std::int64_t step = member_.team_size();
    by_strips<strip>(member_.team_rank(), [&]<int n>(Strip<n>, std::int64_t c) {
      // Loops that nvcc does not unroll would keep what is loaded in memory.
      [&]<int... i>(std::integer_sequence<int, i...>) {
        const Loaded loaded[] = {load(c + i * step)...};
        (f(c + i * step, loaded[i]), ...);
      }
      (std::make_integer_sequence<int, n>());
    });
  }

  struct Plus {
    template <class T>
    KOKKOS_FUNCTION T operator()(T a, T b) const {
      return a + b;
    }
  };
  struct Larger {
    template <class T>
    KOKKOS_FUNCTION T operator()(T a, T b) const {
      return b > a ? b : a;
    }
  };

  /// The threads' values combined, the same bits in each of them. By shuffles and one line of
  /// shared memory: with Kokkos' team_reduce softmax of 1024 numbers reached 0.49 of a copy's speed
  /// (H200).
  template <class T, class Combine>
  KOKKOS_FUNCTION T of_all_threads(T value, const Combine& combine) const {
#if defined(__CUDA_ARCH__)
    for (int distance = warp / 2; distance > 0; distance /= 2)
      value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
    const int warps = member_.team_size() / warp, rank = member_.team_rank();
    if (warps == 1) {
      __syncwarp();
      return value;
    }
    __shared__ T of_warps[most / warp];
    if (rank % warp == 0) of_warps[rank / warp] = value;
    member_.team_barrier();
    value = of_warps[0];
    for (int w = 1; w < warps; ++w) value = combine(value, of_warps[w]);
    member_.team_barrier();  // the next reduction writes there
#else
    static_cast<void>(combine);
#endif
    return value;
  }

  const Member& member_;
  std::int64_t width_;
};

}  // namespace lockstep

#endif
