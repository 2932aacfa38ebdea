#pragma once
// Rows of a GPU's kernels, read and written 16 bytes at a time. Private to the kernels' .cpp files.
#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include <lockstep/tensor/kernels/device_loops.hpp>

namespace lockstep::detail {

/// An operand with an element a column, the same ones for every row.
template <class T>
struct ByColumn {
  const T* data;
  bool is_aligned;  ///< to 16 bytes

  template <class Space>
  static ByColumn of(const Tensor& t) {
    return {flat_view<Space, const T>(t).data(), is_aligned_to_packs(t, 16 / sizeof(T))};
  }
};

/// A row of `width` elements from element `begin` of tensors on, which are aligned to n elements:
/// as packs, n elements that one load reads, and the few elements before the first pack and behind
/// the last. Pack p takes the p-th of these with it. One lane each, `lanes.of_width(row.packs())`,
/// so go through the row. Operands are addresses of such tensors, or ByColumn.
template <int n>
class PackedRow {
 public:
  KOKKOS_FUNCTION PackedRow(std::int64_t begin, std::int64_t width)
      : begin_(begin),
        before_(n == 1 ? 0 : (n - begin % n) % n),
        packs_((width - before_) / n),
        edges_(width - packs_ * n) {}

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t packs() const { return packs_; }

  /// f(c, values...) for the columns of pack p, with the operands' elements as SumOf.
  template <class F, class... In>
  KOKKOS_FUNCTION void each(std::int64_t p, const F& f, const In&... operands) const {
    const std::int64_t first = before_ + p * n;
    [&](const auto&... packs) {
      for (int e = 0; e < n; ++e) f(first + e, wide(packs.values[e])...);
    }(pack(operands, p)...);
    if (n > 1 && p < edges_) {
      const std::int64_t c = edge(p);
      f(c, wide(element(operands, c))...);
    }
  }

  /// Sum of f(c, values...), a SumOf, over the columns of pack p.
  template <class F, class T, class... In>
  [[nodiscard]] KOKKOS_FUNCTION SumOf<T> sum(std::int64_t p, const F& f, const T* operand,
                                             const In&... operands) const {
    SumOf<T> total{0};
    each(
        p, [&](std::int64_t c, auto... values) { total += f(c, values...); }, operand, operands...);
    return total;
  }

  /// to = f(c, values...), or to += it, rounded once, for the columns of pack p. `to` may be one of
  /// the operands.
  template <class To, class F, class... In>
  KOKKOS_FUNCTION void set(std::int64_t p, bool accumulate, To* to, const F& f,
                           const In&... operands) const {
    const std::int64_t first = before_ + p * n;
    Pack<To, n> result{};
    if (accumulate) result = pack(to, p);
    [&](const auto&... packs) {
      for (int e = 0; e < n; ++e) {
        put(f(first + e, wide(packs.values[e])...), accumulate, result.values[e]);
      }
    }(pack(operands, p)...);
    store_pack(result, to, pack_index(p));
    if (n > 1 && p < edges_) {
      const std::int64_t c = edge(p);
      put(f(c, wide(element(operands, c))...), accumulate, to[begin_ + c]);
    }
  }

 private:
  template <class T>
  [[nodiscard]] static KOKKOS_FUNCTION SumOf<T> wide(T value) {
    return static_cast<SumOf<T>>(value);
  }
  template <class T>
  static KOKKOS_FUNCTION void put(SumOf<T> value, bool accumulate, T& to) {
    to = static_cast<T>(accumulate ? wide(to) + value : value);
  }

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t pack_index(std::int64_t p) const {
    return (begin_ + before_) / n + p;
  }
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION Pack<std::remove_const_t<T>, n> pack(T* data,
                                                                     std::int64_t p) const {
    return load_pack<n>(static_cast<const std::remove_const_t<T>*>(data), pack_index(p));
  }
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION Pack<T, n> pack(const ByColumn<T>& columns, std::int64_t p) const {
    constexpr int most = 16 / sizeof(T), m = most < n ? most : n;  // elements of a load
    const std::int64_t first = before_ + p * n;
    Pack<T, n> result;
    if (before_ == 0 && columns.is_aligned) {
      for (int k = 0; k < n / m; ++k) {
        const Pack<T, m> part = load_pack<m>(columns.data, first / m + k);
        for (int e = 0; e < m; ++e) result.values[k * m + e] = part.values[e];
      }
    } else {
      for (int e = 0; e < n; ++e) result.values[e] = columns.data[first + e];
    }
    return result;
  }

  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION T element(const T* data, std::int64_t c) const {
    return data[begin_ + c];
  }
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION T element(const ByColumn<T>& columns, std::int64_t c) const {
    return columns.data[c];
  }
  /// Column of the p-th element that is in no pack.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t edge(std::int64_t p) const {
    return p < before_ ? p : p + packs_ * n;
  }

  std::int64_t begin_, before_, packs_, edges_;
};

/// Calls f.template operator()<n>() with the n of packs of T: 16 bytes, or 1 where the address of a
/// tensor is not aligned to that, or a row may have fewer packs than elements outside of them.
template <class T, class F>
void with_packed_rows(std::int64_t width, std::initializer_list<const Tensor*> tensors,
                      const F& f) {
  constexpr int n = 16 / sizeof(T);
  const bool fits =
      width >= 2 * n * n && std::all_of(tensors.begin(), tensors.end(),
                                        [](const Tensor* t) { return is_aligned_to_packs(*t, n); });
  fits ? f.template operator()<n>() : f.template operator()<1>();
}

}  // namespace lockstep::detail
