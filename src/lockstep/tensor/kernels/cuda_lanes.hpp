#pragma once
// A part of for_each.hpp, for sources that nvcc compiles.

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
    constexpr std::int64_t warp = 32, most = 256;
    const std::int64_t warps = (width + ahead * warp - 1) / (ahead * warp);
    return static_cast<int>(warps < 1 ? warp : (warps * warp < most ? warps * warp : most));
  }

  KOKKOS_FUNCTION Lanes(const Member& member, std::int64_t width)
      : member_(member), width_(width) {}

  KOKKOS_FUNCTION Lanes of_width(std::int64_t width) const { return Lanes(member_, width); }

  template <class T>
  KOKKOS_FUNCTION const Lanes& fetching(const T*) const {
    return *this;
  }

  template <class F>
  KOKKOS_FUNCTION auto sum(const F& f) const {
    using T = decltype(f(std::int64_t{}));
    T total{0};
    in_strips<ahead>([&](std::int64_t c) { total += f(c); });
    member_.team_reduce(Kokkos::Sum<T>(total));
    return total;
  }
  template <class T, std::size_t n, class F>
  KOKKOS_FUNCTION std::array<T, n> sums(const F& f) const {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      T totals[n] = {};
      in_strips<fewer<n>>([&](std::int64_t c) { ((totals[k] += f(Constant<k>(), c)), ...); });
      (member_.team_reduce(Kokkos::Sum<T>(totals[k])), ...);
      return std::array<T, n>{totals[k]...};
    }
    (std::make_index_sequence<n>());
  }

  template <class T, class F>
  KOKKOS_FUNCTION T max(T least, const F& f) const {
    T best = least;
    in_strips<ahead>([&](std::int64_t c) {
      const T value = f(c);
      if (value > best) best = value;
    });
    member_.team_reduce(Largest<T>{best, least});
    return best;
  }

  template <class F>
  KOKKOS_FUNCTION void each(const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, width_), f);
  }

  template <class T, std::size_t n, class F>
  KOKKOS_FUNCTION void write(const std::array<T*, n>& rows, bool /*around*/, const F& f) const {
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      constexpr int strip = fewer<n>;
      const std::int64_t step = member_.team_size();
      std::int64_t c = member_.team_rank();
      for (; c + (strip - 1) * step < width_; c += strip * step) {
        T values[n][strip];
        for (int i = 0; i < strip; ++i) ((values[k][i] = f(Constant<k>(), c + i * step)), ...);
        for (int i = 0; i < strip; ++i) ((rows[k][c + i * step] = values[k][i]), ...);
      }
      for (; c < width_; c += step) ((rows[k][c] = f(Constant<k>(), c)), ...);
    }
    (std::make_index_sequence<n>());
  }

  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerTeam(member_), f);
  }

 private:
  /// Columns that a thread reads for at a time, of one result and of n.
  static constexpr int ahead = 8;
  template <std::size_t n>
  static constexpr int fewer = n < ahead ? ahead / static_cast<int>(n) : 1;

  /// f(c) for this thread's columns, `strip` at a time. f writes to registers only.
  template <int strip, class F>
  KOKKOS_FUNCTION void in_strips(const F& f) const {
    const std::int64_t step = member_.team_size();
    std::int64_t c = member_.team_rank();
    for (; c + (strip - 1) * step < width_; c += strip * step) {
      for (int i = 0; i < strip; ++i) f(c + i * step);
    }
    for (; c < width_; c += step) f(c);
  }

  /// Kokkos::Max begins with the lowest finite number, which is above a row of -inf.
  template <class T>
  struct Largest {
    using reducer = Largest;
    using value_type = T;
    using result_view_type = Kokkos::View<T, Kokkos::AnonymousSpace, Kokkos::MemoryUnmanaged>;
    T& result;
    T least;

    KOKKOS_FUNCTION void init(T& value) const { value = least; }
    KOKKOS_FUNCTION void join(T& value, const T& other) const {
      if (other > value) value = other;
    }
    KOKKOS_FUNCTION T& reference() const { return result; }
    KOKKOS_FUNCTION result_view_type view() const { return result_view_type(&result); }
  };

  const Member& member_;
  std::int64_t width_;
};

}  // namespace lockstep
