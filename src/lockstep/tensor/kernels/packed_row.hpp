#pragma once
// Rows of a GPU's kernels, read and written 16 bytes at a time. Private to the kernels' .cpp files.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/tensor/kernels/device_loops.hpp>

namespace lockstep::detail {

/// A row of `width` elements from element `begin` of tensors on, which are aligned to n elements:
/// as packs, n elements that one load reads, and the few elements before the first pack and behind
/// the last. Pack p takes the p-th of these with it. Each thread of `lanes` goes through packs,
/// with the loads of several under way before it uses the first. Operands are addresses of such
/// tensors, or ByColumn, whose loads are not among these: they are in cache.
template <int n>
class PackedRow {
 public:
  KOKKOS_FUNCTION PackedRow(std::int64_t begin, std::int64_t width)
      : begin_(begin),
        before_(n == 1 ? 0 : (n - begin % n) % n),
        packs_((width - before_) / n),
        edges_(width - packs_ * n) {}

  /// state = f(state, pack) for the packs of the calling thread, where pack(g) calls g(c,
  /// values...) for each of its columns, with the operands' elements as SumOf.
  template <class State, class Lanes, class F, class... In>
  [[nodiscard]] KOKKOS_FUNCTION State fold(const Lanes& lanes, State state, const F& f,
                                           const In&... operands) const {
    return lanes.of_width(packs_).fold(
        state, loader(operands...), [&](State& sofar, std::int64_t p, const auto& loaded) {
          sofar = f(sofar, [&](const auto& g) { visit(p, loaded, g, operands...); });
        });
  }

  /// Sum of f(c, values...), of type T, over the columns.
  template <class T, class Lanes, class F, class... In>
  [[nodiscard]] KOKKOS_FUNCTION T sum(const Lanes& lanes, const F& f, const In&... operands) const {
    const auto add = [&](T total, const auto& pack) {
      T part{0};  // the sums of packs do not wait for each other
      pack([&](std::int64_t c, auto... values) { part += f(c, values...); });
      return total + part;
    };
    return lanes.all_sum(fold(lanes, T{0}, add, operands...));
  }

  /// Sums of f(k, c, values...) for k = 0, ..., count - 1 (as constants), in one pass.
  template <class T, std::size_t count, class Lanes, class F, class... In>
  [[nodiscard]] KOKKOS_FUNCTION std::array<T, count> sums(const Lanes& lanes, const F& f,
                                                          const In&... operands) const {
    return [&]<std::size_t... k>(std::index_sequence<k...>) {
      const auto add = [&](std::array<T, count> totals, const auto& pack) {
        std::array<T, count> part{};
        pack([&](std::int64_t c, auto... values) {
          ((part[k] += f(Constant<k>(), c, values...)), ...);
        });
        ((totals[k] += part[k]), ...);
        return totals;
      };
      const auto own = fold(lanes, std::array<T, count>{}, add, operands...);
      return std::array<T, count>{lanes.all_sum(own[k])...};
    }
    (std::make_index_sequence<count>());
  }

  /// to = f(c, values...), or to += it, rounded once, for all columns. `to` may be one of the
  /// operands.
  template <class Lanes, class To, class F, class... In>
  KOKKOS_FUNCTION void set(const Lanes& lanes, bool accumulate, To* to, const F& f,
                           const In&... operands) const {
    const auto packs = lanes.of_width(packs_);
    const auto load = loader(operands...);
    // Apart, so that nothing is read ahead in vain.
    if (accumulate) {
      packs.each([&](std::int64_t p) { return std::pair(pack(to, p), load(p)); },
                 [&](std::int64_t p, const auto& loaded) {
                   store(p, true, loaded.first, loaded.second, to, f, operands...);
                 });
    } else {
      packs.each(load, [&](std::int64_t p, const auto& loaded) {
        store(p, false, Pack<To, n>{}, loaded, to, f, operands...);
      });
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

  template <class To, class Loaded, class F, class... In>
  KOKKOS_FUNCTION void store(std::int64_t p, bool accumulate, Pack<To, n> result,
                             const Loaded& loaded, To* to, const F& f,
                             const In&... operands) const {
    visit_pack(
        p, loaded,
        [&](int e, std::int64_t c, auto... values) {
          put(f(c, values...), accumulate, result.values[e]);
        },
        operands...);
    store_pack(result, to, pack_index(p));
    visit_edge(
        p,
        [&](std::int64_t c, auto... values) { put(f(c, values...), accumulate, to[begin_ + c]); },
        operands...);
  }

  /// What a thread reads ahead of an operand's pack p.
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION auto early(T* data, std::int64_t p) const {
    return pack(data, p);
  }
  struct Later {};
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION Later early(const ByColumn<T>&, std::int64_t) const {
    return {};
  }
  template <class... In>
  [[nodiscard]] KOKKOS_FUNCTION auto loader(const In&... operands) const {
    return [&]([[maybe_unused]] std::int64_t p) { return std::tuple(early(operands, p)...); };
  }

  /// That pack, whole.
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION const Pack<std::remove_const_t<T>, n>& ready(
      const Pack<std::remove_const_t<T>, n>& loaded, T*, std::int64_t) const {
    return loaded;
  }
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION Pack<T, n> ready(Later, const ByColumn<T>& columns,
                                                 std::int64_t p) const {
    return columns.template pack<n>(before_ + p * n, before_ == 0);
  }

  /// f(c, values...) for the columns of pack p, and of its edge.
  template <class Loaded, class F, class... In>
  KOKKOS_FUNCTION void visit(std::int64_t p, const Loaded& loaded, const F& f,
                             const In&... operands) const {
    visit_pack(
        p, loaded, [&](int, std::int64_t c, auto... values) { f(c, values...); }, operands...);
    visit_edge(p, f, operands...);
  }
  /// f(e, c, values...) for the columns of the pack alone, c its e-th.
  template <class Loaded, class F, class... In>
  KOKKOS_FUNCTION void visit_pack(std::int64_t p, const Loaded& loaded, const F& f,
                                  const In&... operands) const {
    const std::int64_t first = before_ + p * n;
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      [&](const auto&... packs) {
        for (int e = 0; e < n; ++e) f(e, first + e, wide(packs.values[e])...);
      }(ready(std::get<k>(loaded), operands, p)...);
    }
    (std::index_sequence_for<In...>());
  }
  template <class F, class... In>
  KOKKOS_FUNCTION void visit_edge(std::int64_t p, const F& f, const In&... operands) const {
    if (n == 1 || p >= edges_) return;
    const std::int64_t c = p < before_ ? p : p + packs_ * n;
    f(c, wide(element(operands, c))...);
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
  [[nodiscard]] KOKKOS_FUNCTION T element(const T* data, std::int64_t c) const {
    return data[begin_ + c];
  }
  template <class T>
  [[nodiscard]] KOKKOS_FUNCTION T element(const ByColumn<T>& columns, std::int64_t c) const {
    return columns.data[c];
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
