#pragma once
#include <cmath>
#include <cstdint>
#include <string>

#include <lockstep/tensor/view.hpp>

// The loops that element and row kernels are made of. Host kernels use only Kokkos'
// parallel_for over a RangePolicy: anything else is not thread-safe in Kokkos 3.4's Serial space.

// Everything that a loop over elements calls is inlined into it, however long: a call that is left
// keeps the loop from becoming vectors. (nvcc's front end does without: not tried there.)
#if defined(__GNUC__) && !defined(__CUDACC__)
#define LOCKSTEP_FLATTEN __attribute__((flatten))
#else
#define LOCKSTEP_FLATTEN
#endif

namespace lockstep {

/// f(i) for i in [0, n). `label` is a static string that a profiler shows.
template <class Space, class F>
void for_each(const char* label, const Space& space, std::int64_t n, const F& f) {
  if (n == 0) return;
  // Kokkos takes a std::string: made once a kernel (F), else every launch would allocate.
  static const std::string name(label);
  Kokkos::parallel_for(name,
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(space, 0, n), f);
}

/// The same for arithmetic on elements that lie side by side: on the host the compiler turns f into
/// vectors. f(i) touches nothing that another f(j) writes.
template <class Space, class F>
void for_each_element(const char* label, const Space& space, std::int64_t n, const F& f) {
  if constexpr (is_host_space<Space>) {
    constexpr std::int64_t block = 4096;
    for_each(label, space, (n + block - 1) / block, [=](std::int64_t b) LOCKSTEP_FLATTEN {
      const std::int64_t begin = b * block, end = begin + block < n ? begin + block : n;
#pragma omp simd
      for (std::int64_t i = begin; i < end; ++i) f(i);
    });
  } else {
    for_each(label, space, n, f);
  }
}

/// What a row kernel may do across the elements of its row. On the host: loops over 16 fixed lanes,
/// so that the order of a sum, and with it its bits, is the same for every vector width. On a
/// device: a team. The host's members are KOKKOS_FUNCTIONs because a KOKKOS_LAMBDA, which nvcc
/// compiles for both, calls them.
template <class Space>
class Lanes;

/// What Lanes::sums returns.
template <class T>
struct Sums {
  T first, second;
};

template <class Space>
requires is_host_space<Space>
class Lanes<Space> {
 public:
  KOKKOS_FUNCTION explicit Lanes(std::int64_t width) : width_(width) {}

  /// Sum of f(c) over the columns c: 16 partial sums, added pairwise.
  template <class F>
  [[nodiscard]] KOKKOS_FUNCTION LOCKSTEP_FLATTEN auto sum(const F& f) const {
    using T = decltype(f(std::int64_t{}));
    return reduce(T{0}, f, [](T a, T b) { return a + b; });
  }

  /// Sums of f(c) and of g(c), in one pass.
  template <class F, class G>
  [[nodiscard]] KOKKOS_FUNCTION LOCKSTEP_FLATTEN auto sums(const F& f, const G& g) const {
    using T = decltype(f(std::int64_t{}));
    T first[lanes] = {}, second[lanes] = {};
    const std::int64_t whole = width_ / lanes * lanes;
    for (std::int64_t c = 0; c < whole; c += lanes) {
#pragma omp simd
      for (int l = 0; l < lanes; ++l) {
        first[l] += f(c + l);
        second[l] += g(c + l);
      }
    }
    for (std::int64_t c = whole; c < width_; ++c) {
      first[c - whole] += f(c);
      second[c - whole] += g(c);
    }
    const auto add = [](T a, T b) { return a + b; };
    return Sums<T>{fold(first, add), fold(second, add)};
  }

  /// Largest f(c); `least` for an empty row.
  template <class T, class F>
  [[nodiscard]] KOKKOS_FUNCTION LOCKSTEP_FLATTEN T max(T least, const F& f) const {
    return reduce(least, f, [](T a, T b) { return a > b ? a : b; });
  }

  /// f(c) for every column, in no order.
  template <class F>
  KOKKOS_FUNCTION LOCKSTEP_FLATTEN void each(const F& f) const {
#pragma omp simd
    for (std::int64_t c = 0; c < width_; ++c) f(c);
  }

  /// f() once a row.
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    f();
  }

 private:
  static constexpr int lanes = 16;

  template <class T, class F, class Combine>
  [[nodiscard]] KOKKOS_FUNCTION T reduce(T neutral, const F& f, const Combine& combine) const {
    T partial[lanes];
    for (T& p : partial) p = neutral;
    const std::int64_t whole = width_ / lanes * lanes;
    for (std::int64_t c = 0; c < whole; c += lanes) {
#pragma omp simd
      for (int l = 0; l < lanes; ++l) partial[l] = combine(partial[l], f(c + l));
    }
    for (std::int64_t c = whole; c < width_; ++c)
      partial[c - whole] = combine(partial[c - whole], f(c));
    return fold(partial, combine);
  }

  /// All lanes in one, by halves.
  template <class T, int count, class Combine>
  static KOKKOS_FUNCTION T fold(const T (&partial)[count], const Combine& combine) {
    if constexpr (count == 1) {
      return partial[0];
    } else {
      constexpr int half = count / 2;
      T halves[half];
#pragma omp simd
      for (int l = 0; l < half; ++l) halves[l] = combine(partial[l], partial[l + half]);
      return fold(halves, combine);
    }
  }

  std::int64_t width_;
};

#if defined(KOKKOS_ENABLE_CUDA) && defined(__CUDACC__)
template <>
class Lanes<Kokkos::Cuda> {
 public:
  using Member = Kokkos::TeamPolicy<Kokkos::Cuda>::member_type;
  KOKKOS_FUNCTION Lanes(const Member& member, std::int64_t width)
      : member_(member), width_(width) {}

  template <class F>
  KOKKOS_FUNCTION auto sum(const F& f) const {
    using T = decltype(f(std::int64_t{}));
    T total{0};
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(member_, width_), [&](std::int64_t c, T& part) { part += f(c); },
        total);
    return total;
  }

  template <class F, class G>
  KOKKOS_FUNCTION auto sums(const F& f, const G& g) const {
    return Sums<decltype(f(std::int64_t{}))>{sum(f), sum(g)};
  }

  template <class T, class F>
  KOKKOS_FUNCTION T max(T least, const F& f) const {
    T best = least;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(member_, width_),
        [&](std::int64_t c, T& part) {
          const T value = f(c);
          if (value > part) part = value;
        },
        Largest<T>{best, least});
    return best;
  }

  template <class F>
  KOKKOS_FUNCTION void each(const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(member_, width_), f);
  }

  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerTeam(member_), f);
  }

 private:
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
#endif

/// f(row, lanes) for every row of a rows x width problem.
template <class Space, class F>
void for_each_row(const char* label, const Space& space, std::int64_t rows, std::int64_t width,
                  const F& f) {
  if (rows == 0) return;
  if constexpr (is_host_space<Space>) {
    static_cast<void>(space);
    for_each(label, space, rows, [=](std::int64_t r) { f(r, Lanes<Space>(width)); });
  } else {
#if defined(KOKKOS_ENABLE_CUDA) && defined(__CUDACC__)
    using Policy = Kokkos::TeamPolicy<Space>;
    Kokkos::parallel_for(
        label, Policy(space, static_cast<int>(rows), Kokkos::AUTO),
        KOKKOS_LAMBDA(const typename Policy::member_type& member) {
          f(static_cast<std::int64_t>(member.league_rank()), Lanes<Space>(member, width));
        });
#endif
  }
}

}  // namespace lockstep
