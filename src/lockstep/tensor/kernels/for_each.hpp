#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/element_strips.hpp>
#include <lockstep/tensor/kernels/elementwise/streaming.hpp>
#include <lockstep/tensor/view.hpp>

// The loops that element and row kernels are made of.

// Everything that a loop over elements calls is inlined into it, however long: a call that is left
// keeps the loop from becoming vectors. (With nvcc's front end it is not needed: untested.)
#if defined(__GNUC__) && !defined(__CUDACC__)
#define LOCKSTEP_FLATTEN __attribute__((flatten))
#else
#define LOCKSTEP_FLATTEN
#endif

namespace lockstep {

namespace detail {

/// The loop itself, inlined into its caller. On the host it is a plain loop that reports to Kokkos'
/// tools what parallel_for would report: parallel_for checks twice for a tool (220 instructions a
/// kernel in Kokkos 3.4), from version 4 on admits one thread at a time, and with CUDA needs a GPU.
template <class Space, class F>
void for_each_here(const char* label, const Space& space, std::int64_t n, const F& f) {
  if constexpr (is_host_space<Space>) {
    const bool is_profiled = kernels_are_profiled.load(std::memory_order_relaxed);
    std::uint64_t id = 0;
    if (is_profiled) [[unlikely]] {
      id = begin_profiled(label);
    }
    const F here = f;  // NOLINT(performance-*): nobody else writes to it
    for (std::int64_t i = 0; i < n; ++i) here(i);
    if (is_profiled) [[unlikely]] {
      end_profiled(id);
    }
  } else {
    // Kokkos takes a std::string: made once a kernel (F), else every launch would allocate.
    static const std::string name(label);
    // Kokkos before 4.6 counts the threads of a launch in 32 bits.
    constexpr std::int64_t most = std::int64_t{1} << 30U;
    for (std::int64_t begin = 0; begin < n; begin += most) {
      Kokkos::parallel_for(name,
                           Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(
                               space, begin, n - begin < most ? n : begin + most),
                           f);
    }
  }
}

/// Hands Launch::run(label, space, arguments...), with copies of the arguments, to the simulated
/// stream that this thread launches to.
template <class Space, class Launch, class... Arguments>
[[gnu::cold, gnu::noinline]] void hand_over(const char* label, const Arguments&... arguments) {
  const auto late = [label, arguments...] { Launch::run(label, Space(), arguments...); };
  launch_late(label, LateCall::of(late));
}

/// Calls Launch::run(label, space, arguments...), a loop that is not inlined, or hands the call
/// over: one piece of code for both, so the same bits.
template <class Space, class Launch, class... Arguments>
void launch_or_hand_over(const char* label, const Space& space, const Arguments&... arguments) {
  if constexpr (is_host_space<Space>) {
    if (launch_target.queue) [[unlikely]] {
      return hand_over<Space, Launch>(label, arguments...);
    }
  }
  Launch::run(label, space, arguments...);
}

struct ForEach {
  template <class Space, class F>
  [[gnu::noinline]] static void run(const char* label, const Space& space, std::int64_t n,
                                    const F& f) {
    for_each_here(label, space, n, f);
  }
};

}  // namespace detail

/// f(i) for i in [0, n), on the device that this thread launches to. `label` is a static string
/// that a profiler shows. On a device the call returns before f has run: f must capture by value.
template <class Space, class F>
void for_each(const char* label, const Space& space, std::int64_t n, const F& f) {
  if (n > 0) detail::launch_or_hand_over<Space, detail::ForEach>(label, space, n, f);
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

/// out(i) = f(inputs(i)...) for i in [0, n), elements that lie side by side. `out` may be one of
/// the inputs.
template <class Space, class Out, class F, class... Inputs>
void set_elements(const char* label, const Space& space, std::int64_t n, const Out& out, const F& f,
                  const Inputs&... inputs) {
  if constexpr (is_host_space<Space>) {
    for_each_element(label, space, n,
                     [=](std::int64_t i) LOCKSTEP_FLATTEN { out(i) = f(inputs(i)...); });
  } else {
    const auto share_out = [&](const auto& strip) {
      for_each(label, space, strip.threads(), strip);
    };
    if constexpr (detail::IsNarrowView<Out> && (detail::IsNarrowView<Inputs> && ...)) {
      const detail::PackStrip<Out, F, Inputs...> packs{n, out, f, {inputs...}};
      if (packs.fits()) return share_out(packs);
    }
    share_out(detail::Strip<Out, F, Inputs...>{n, out, f, {inputs...}});
  }
}

namespace detail {

/// f's result as a T.
template <class T, class F>
struct Rounded {
  F f;
  template <class... Values>
  KOKKOS_FUNCTION T operator()(const Values&... values) const {
    return static_cast<T>(f(values...));
  }
};

/// The same, added to the old value.
template <class T, class F>
struct Added {
  F f;
  template <class... Values>
  KOKKOS_FUNCTION T operator()(T before, const Values&... values) const {
    return static_cast<T>(static_cast<SumOf<T>>(before) + f(values...));
  }
};

}  // namespace detail

/// out(i) = f(inputs(i)...) or, with `accumulate`, out(i) += f(inputs(i)...): f gives a SumOf<T>,
/// which is rounded once.
template <class Space, class Out, class F, class... Inputs>
void set_or_add_elements(const char* label, const Space& space, std::int64_t n, bool accumulate,
                         const Out& out, const F& f, const Inputs&... inputs) {
  using T = typename Out::non_const_value_type;
  if (accumulate) {
    set_elements(label, space, n, out, detail::Added<T, F>{f}, out, inputs...);
  } else {
    set_elements(label, space, n, out, detail::Rounded<T, F>{f}, inputs...);
  }
}

template <std::size_t k>
using Constant = std::integral_constant<std::size_t, k>;

/// Operations of a row kernel across the elements of its row. On the host: loops with a fixed
/// number of partial sums, so that the order of a sum, and with it its bits, is the same for every
/// vector width. On a device: a team. The host's members are KOKKOS_FUNCTIONs because a
/// KOKKOS_LAMBDA, which nvcc compiles for both, calls them.
template <class Space>
class Lanes;

/// The host: 16 lanes, whatever the vector width of the processor, so that sums have the same bits.
template <class Space>
requires is_host_space<Space>
class Lanes<Space> {
 public:
  KOKKOS_FUNCTION explicit Lanes(std::int64_t width) : width_(width) {}

  /// The same for a part of the row, or for another.
  [[nodiscard]] KOKKOS_FUNCTION Lanes of_width(std::int64_t width) const { return Lanes(width); }

  /// For a pass that finds its own row in cache: its sum or max asks meanwhile for `row`, the next
  /// one (its address need not exist). Without it memory would be idle, because the processor
  /// prefetches only data that is read. Share of a plain loop's speed without and with it, the
  /// better of 2 rounds in turn: layer_norm 0.82 and 0.96 for 1024 floats, 0.65 and 0.71 for 4096;
  /// softmax for 4096 0.74 and 0.79, log_softmax 0.57 and 0.75, both for 1024 within their scatter.
  /// Rows below 2 KiB are left to the processor.
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION Lanes fetching(const T* row) const {
    Lanes result(*this);
    const std::int64_t bytes = width_ * static_cast<std::int64_t>(sizeof(T));
    if (bytes >= 2048) result.next_ = reinterpret_cast<const char*>(row);
    return result;
  }

  /// Sum of f(c) over the columns c: 256 bytes of partial sums, added by halves.
  template <class F>
  [[nodiscard]] KOKKOS_FUNCTION LOCKSTEP_FLATTEN auto sum(const F& f) const {
    using T = decltype(f(std::int64_t{}));
    return reduce(T{0}, f, [](auto a, auto b) { return a + b; });
  }

  /// Sums of f(k, c) for k = 0, ..., n - 1 (as constants) in one pass: 128 bytes of partial sums
  /// each.
  template <class T, std::size_t n, class F>
  [[nodiscard]] KOKKOS_FUNCTION LOCKSTEP_FLATTEN std::array<T, n> sums(const F& f) const {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      using Sum = Partial<T, 128>;
      const auto add = [](auto a, auto b) { return a + b; };
      const auto column = [&](auto which) {
        return [&f](std::int64_t c) { return f(decltype(which)(), c); };
      };
      Sum partial[n] = {(static_cast<void>(k), Sum(T{0}))...};
      const T zero = hidden_zero<T>();
      std::int64_t c = 0;
      for (; c + Sum::count <= width_; c += Sum::count) {
        (partial[k].take(column(Constant<k>()), c, add, zero), ...);
      }
      (partial[k].take_rest(column(Constant<k>()), c, width_, add), ...);
      return std::array<T, n>{partial[k].fold(add)...};
    }
    (std::make_index_sequence<n>());
  }

  /// Largest f(c); `least` for an empty row.
  template <class T, class F>
  [[nodiscard]] KOKKOS_FUNCTION LOCKSTEP_FLATTEN T max(T least, const F& f) const {
    return reduce(least, f, [](auto a, auto b) { return a > b ? a : b; });
  }

  /// f(c) for every column, in no order. Strips of a fixed length are unrolled: the backward of
  /// layer_norm without parameters reaches 0.95 instead of 0.86 of a plain loop's speed (1024).
  template <class F>
  KOKKOS_FUNCTION LOCKSTEP_FLATTEN void each(const F& f) const {
    constexpr std::int64_t strip = 64;
    std::int64_t c = 0;
    for (; c + strip <= width_; c += strip) {
#pragma omp simd
      for (std::int64_t l = 0; l < strip; ++l) f(c + l);
    }
#pragma omp simd
    for (std::int64_t rest = c; rest < width_; ++rest) f(rest);
  }

  /// rows[k][c] = f(k, c) for every column and k = 0, ..., n - 1 (as constants, in this order for
  /// each column). With `around`, stores bypass the caches as far as the processor can: for a
  /// result larger than the caches, whose lines would be fetched only to be overwritten. Share of a
  /// plain loop's speed without and with it, 4096 floats: layer_norm 0.65 and 0.98, log_softmax
  /// 0.75 and 0.92. Rows below 8 KiB are not worth the wait at their end (0.93 and 0.87 for 1024).
  template <class T, std::size_t n, class F>
  KOKKOS_FUNCTION LOCKSTEP_FLATTEN void write(const std::array<T*, n>& rows, bool around,
                                              const F& f) const {
    around = around && width_ * static_cast<std::int64_t>(sizeof(T)) >= 8192;
    for (const T* row : rows) around = around && streaming::is_aligned(row);
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      constexpr std::int64_t chunk = streaming::line / sizeof(T);
      std::int64_t c = 0;
      for (; around && c + chunk <= width_; c += chunk) {
        T values[n][chunk];
#pragma omp simd simdlen(vector_bytes <T> / sizeof(T))
        for (std::int64_t l = 0; l < chunk; ++l) ((values[k][l] = f(Constant<k>(), c + l)), ...);
        (streaming::store(rows[k] + c, values[k]), ...);
      }
      if (around) streaming::finish();
      const Lanes rest(width_ - c);
      rest.each([&](std::int64_t l) { ((rows[k][c + l] = f(Constant<k>(), c + l)), ...); });
    }
    (std::make_index_sequence<n>());
  }

  /// f() once a row.
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    f();
  }

  // For rows of packs (packed_row.hpp), which only a GPU and its stand-in have. A team's threads
  // have the loads of several columns under way before they use the first.

  /// f(state, c, load(c)) for the calling thread's columns; returns its state.
  template <class State, class Load, class F>
  [[nodiscard]] KOKKOS_FUNCTION State fold(State state, const Load& load, const F& f) const {
    for (std::int64_t c = 0; c < width_; ++c) f(state, c, load(c));
    return state;
  }
  /// f(c, load(c)) for every column. f writes nothing that load reads for another column.
  template <class Load, class F>
  KOKKOS_FUNCTION void each(const Load& load, const F& f) const {
    for (std::int64_t c = 0; c < width_; ++c) f(c, load(c));
  }
  /// Of the threads' values.
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION T all_sum(T value) const {
    return value;
  }
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION T all_max(T value) const {
    return value;
  }

 private:
#if defined(__CUDACC__)  // nvcc has no vectors
  template <class T, std::size_t bytes>
  struct VectorOf {
    using type = T;
  };
  template <class T>
  static constexpr int vector_bytes = sizeof(T);
#else
  template <class T, std::size_t bytes>
  struct VectorOf {
    using type [[gnu::vector_size(bytes)]] = T;
  };
#if defined(__AVX512F__)
  template <class T>
  static constexpr int vector_bytes = 64;
#elif defined(__AVX__)
  template <class T>
  static constexpr int vector_bytes = 32;
#else
  template <class T>
  static constexpr int vector_bytes = 16;
#endif
#endif

  /// 0, but the compiler does not know it.
  template <class T>
  static KOKKOS_FUNCTION T hidden_zero() {
    T zero{0};
#if defined(__AVX__) && !defined(__CUDACC__)
    asm("" : "+x"(zero));
#endif
    return zero;
  }

  /// `bytes` of partial results, column c's at c % count. In vectors, as GCC 12 keeps an array of
  /// numbers in memory, and several of them, so that one addition need not await the other: the sum
  /// of 4000 floats in cache takes 84 ns instead of 370 (AVX-512), 123 instead of 424 (AVX2).
  template <class T, int bytes>
  struct Partial {
    static constexpr int count = bytes / sizeof(T), lanes = vector_bytes<T> / sizeof(T);
    static constexpr int chunk = 64 / sizeof(T);  // columns that f is called for in one loop
    using Vector = typename VectorOf<T, vector_bytes<T>>::type;
    Vector vectors[count / lanes];

    KOKKOS_FUNCTION explicit Partial(T neutral) {
      each_of<count / lanes>([&](auto i) { vectors[i] = neutral - Vector{}; });
    }

    /// The next `count` columns. A loop that only copied would become 16-byte moves, or halves of
    /// a vector where the compiler prefers 32 bytes, and reading these as one vector has to wait
    /// until they reach the cache (1150 ns instead of 84): hence simdlen and the subtraction of
    /// `zero`, from hidden_zero(), which changes no value, -0 included.
    template <class F, class Combine>
    KOKKOS_FUNCTION void take(const F& f, std::int64_t c, const Combine& combine, T zero) {
      each_of<count / chunk>([&](auto i) {
        T values[chunk];
#pragma omp simd simdlen(lanes)
        for (int l = 0; l < chunk; ++l) values[l] = f(c + i * chunk + l) - zero;
        each_of<chunk / lanes>([&](auto k) {
          Vector next;
          std::memcpy(&next, values + k * lanes, sizeof next);
          Vector& sofar = vectors[i * (chunk / lanes) + k];
          sofar = combine(sofar, next);
        });
      });
    }

    /// The last columns, fewer than `count`.
    template <class F, class Combine>
    KOKKOS_FUNCTION void take_rest(const F& f, std::int64_t begin, std::int64_t end,
                                   const Combine& combine) {
      if (begin == end) return;
      T values[count];
      std::memcpy(values, vectors, sizeof values);
#pragma omp simd
      for (std::int64_t c = begin; c < end; ++c) {
        values[c - begin] = combine(values[c - begin], f(c));
      }
      std::memcpy(vectors, values, sizeof values);
    }

    /// All in one, by halves.
    template <class Combine>
    KOKKOS_FUNCTION T fold(const Combine& combine) {
      halve<count / lanes / 2>(combine);
      return fold_vector(vectors[0], combine);
    }

   private:
    /// f(0), ..., f(n - 1) with constants, so that `vectors` become registers.
    template <int n, class F>
    static KOKKOS_FUNCTION void each_of(const F& f) {
      [&]<int... I>(std::integer_sequence<int, I...>) {
        (f(std::integral_constant<int, I>{}), ...);
      }
      (std::make_integer_sequence<int, n>{});
    }

    template <int half, class Combine>
    KOKKOS_FUNCTION void halve(const Combine& combine) {
      if constexpr (half > 0) {
        each_of<half>([&](auto i) { vectors[i] = combine(vectors[i], vectors[i + half]); });
        halve<half / 2>(combine);
      }
    }

    template <class V, class Combine>
    static KOKKOS_FUNCTION T fold_vector(const V& v, const Combine& combine) {
      if constexpr (sizeof(V) == sizeof(T)) {
        return v;
      } else if constexpr (sizeof(V) == 2 * sizeof(T)) {
        return combine(v[0], v[1]);
      } else {
        using Half = typename VectorOf<T, sizeof(V) / 2>::type;
        Half halves[2];
        std::memcpy(halves, &v, sizeof v);
        return fold_vector(combine(halves[0], halves[1]), combine);
      }
    }
  };

  template <class T, class F, class Combine>
  [[nodiscard]] KOKKOS_FUNCTION T reduce(T neutral, const F& f, const Combine& combine) const {
    Partial<T, 256> partial(neutral);
    const T zero = hidden_zero<T>();
    std::int64_t c = 0;
    for (; c + partial.count <= width_; c += partial.count) {
#if !defined(__CUDACC__)
      if (next_ != nullptr) {
        const char* ahead = next_ + c * static_cast<std::int64_t>(sizeof(T));
        for (int line = 0; line < 256; line += 64) __builtin_prefetch(ahead + line);
      }
#endif
      partial.take(f, c, combine, zero);
    }
    partial.take_rest(f, c, width_, combine);
    return partial.fold(combine);
  }

  std::int64_t width_;
  const char* next_ = nullptr;
};

}  // namespace lockstep

#if defined(KOKKOS_ENABLE_CUDA) && defined(__CUDACC__)
#include <lockstep/tensor/kernels/cuda_lanes.hpp>
#endif

namespace lockstep {

namespace detail {

/// Rows as the int by which Kokkos counts the teams of a launch. Throws ShapeError for more.
[[nodiscard]] inline int team_count(const char* label, std::int64_t rows) {
  constexpr int most = std::numeric_limits<int>::max() - 1;  // Kokkos adds one
  if (rows > most) {
    throw ShapeError(std::string(label) + ": a GPU takes at most " + std::to_string(most) +
                     " rows at once, not " + std::to_string(rows));
  }
  return static_cast<int>(rows);
}

}  // namespace detail

/// f(row, lanes) for every row of a rows x width problem. On a GPU throws ShapeError for more than
/// 2^31 - 2 rows.
template <class Space, class F>
void for_each_row(const char* label, const Space& space, std::int64_t rows, std::int64_t width,
                  const F& f) {
  if (rows == 0) return;
  if constexpr (is_host_space<Space>) {
    static_cast<void>(space);
    // Flattened, as numbers that a pass which is left as a call captures would lie in memory: the
    // forward of log_softmax reached 0.55 instead of 0.82 of a plain loop's speed (width 192).
    for_each(label, space, rows,
             [=](std::int64_t r) LOCKSTEP_FLATTEN { f(r, Lanes<Space>(width)); });
  } else {
#if defined(KOKKOS_ENABLE_CUDA) && defined(__CUDACC__)
    using Policy = Kokkos::TeamPolicy<Space>;
    static const std::string name(label);
    Kokkos::parallel_for(
        name, Policy(space, detail::team_count(label, rows), Lanes<Space>::team_size(width)),
        KOKKOS_LAMBDA(const typename Policy::member_type& member) {
          f(static_cast<std::int64_t>(member.league_rank()), Lanes<Space>(member, width));
        });
#endif
  }
}

/// f(row, begin, lanes) for parts of every row, where lanes go through the columns from `begin` on:
/// few long rows would not fill a GPU.
template <class Space, class F>
void for_each_part_of_rows(const char* label, const Space& space, std::int64_t rows,
                           std::int64_t width, const F& f) {
  constexpr std::int64_t length = 4096;
  const std::int64_t parts = width > length ? (width + length - 1) / length : 1;
  for_each_row(
      label, space, rows * parts, parts > 1 ? length : width,
      KOKKOS_LAMBDA(std::int64_t i, const Lanes<Space>& lanes) {
        const std::int64_t row = i / parts, begin = (i - row * parts) * length;
        const std::int64_t left = width - begin;
        f(row, begin, lanes.of_width(left < length ? left : length));
      });
}

}  // namespace lockstep
