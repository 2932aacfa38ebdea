#pragma once
// Parts of kernels that read memory as fast as a GPU can: several elements as one load, and loops
// of one thread with several loads under way. Private to the kernels' .cpp files.
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {

/// The address fits packs of n, or the tensor is undefined.
inline bool is_aligned_to_packs(const Tensor& t, std::size_t n) {
  return !t.defined() ||
         reinterpret_cast<std::uintptr_t>(t.kernel_data()) % (n * size_of(t.dtype())) == 0;
}

/// Numbers of which each row, or each position of an image, reads all: an element a column, or a
/// channel.
template <class T>
struct ByColumn {
  const T* data;
  bool is_aligned;  ///< to 16 bytes

  template <class Space>
  static ByColumn of(const Tensor& t) {
    return {flat_view<Space, const T>(t).data(), is_aligned_to_packs(t, 16 / sizeof(T))};
  }
  /// n elements from `first` on, in loads of up to 16 bytes where `first` is a multiple of n.
  template <int n>
  [[nodiscard]] KOKKOS_FUNCTION Pack<T, n> pack(std::int64_t first, bool is_multiple = true) const {
    constexpr int most = 16 / sizeof(T), m = most < n ? most : n;  // elements of a load
    Pack<T, n> result;
    if (is_multiple && is_aligned) {
      for (int k = 0; k < n / m; ++k) {
        const Pack<T, m> part = load_pack<m>(data, first / m + k);
        for (int e = 0; e < m; ++e) result.values[k * m + e] = part.values[e];
      }
    } else {
      for (int e = 0; e < n; ++e) result.values[e] = data[first + e];
    }
    return result;
  }
};

/// Sums of f(r), arrays of n numbers, over r in [begin, end) by one thread: `group` calls of f,
/// a power of 2, have their loads under way at once.
template <int group, class T, std::size_t n, class F>
KOKKOS_FUNCTION std::array<T, n> sums_of_rows(std::int64_t begin, std::int64_t end, const F& f) {
  std::array<T, n> total{};
  std::int64_t r = begin;
  for (; r + group <= end; r += group) {
    std::array<T, n> found[group];
    for (int l = 0; l < group; ++l) found[l] = f(r + l);
    for (int half = group / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) {
        for (std::size_t k = 0; k < n; ++k) found[l][k] += found[l + half][k];
      }
    }
    for (std::size_t k = 0; k < n; ++k) total[k] += found[0][k];
  }
  for (; r < end; ++r) {
    const std::array<T, n> found = f(r);
    for (std::size_t k = 0; k < n; ++k) total[k] += found[k];
  }
  return total;
}

/// What Lanes offers, for rows that one thread goes through: many short ones.
class OneThread {
 public:
  KOKKOS_FUNCTION explicit OneThread(std::int64_t width) : width_(width) {}

  template <class F>
  [[nodiscard]] KOKKOS_FUNCTION auto sum(const F& f) const {
    using T = decltype(f(std::int64_t{}));
    return sums_of_rows<8, T, 1>(0, width_,
                                 [&](std::int64_t i) { return std::array<T, 1>{f(i)}; })[0];
  }
  template <class T, std::size_t n, class F>
  [[nodiscard]] KOKKOS_FUNCTION std::array<T, n> sums(const F& f) const {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      return sums_of_rows<8, T, n>(
          0, width_, [&](std::int64_t i) { return std::array<T, n>{f(Constant<k>(), i)...}; });
    }
    (std::make_index_sequence<n>());
  }
  template <class F>
  KOKKOS_FUNCTION void once(const F& f) const {
    f();
  }

 private:
  std::int64_t width_;
};

/// f(row, lanes) for every row, where lanes is a Lanes or, for short rows, a OneThread: f is an
/// object whose call operator is a template.
template <class Space, class F>
void for_each_short_row(const char* label, const Space& space, std::int64_t rows,
                        std::int64_t width, const F& f) {
  if (width > 64) {
    for_each_row(label, space, rows, width, f);
  } else {
    for_each(
        label, space, rows, KOKKOS_LAMBDA(std::int64_t r) { f(r, OneThread(width)); });
  }
}

}  // namespace lockstep::detail
