#pragma once
// How a GPU's threads share out elements that lie side by side. A part of for_each.hpp.
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include <lockstep/tensor/view.hpp>

namespace lockstep::detail {

/// n elements side by side: one load or store of a device.
template <class T, int n>
struct alignas(n * sizeof(T)) Pack {
  T values[n];
};

template <int n, class T>
KOKKOS_FUNCTION Pack<std::remove_const_t<T>, n> load_pack(T* data, std::int64_t i) {
  return reinterpret_cast<const Pack<std::remove_const_t<T>, n>*>(data)[i];
}
template <int n, class T>
KOKKOS_FUNCTION void store_pack(const Pack<T, n>& pack, T* data, std::int64_t i) {
  reinterpret_cast<Pack<T, n>*>(data)[i] = pack;
}

/// out(i) = f(inputs(i)...) for i in [0, n). A thread reads the operands of several elements before
/// it computes the first: with one of 4 bytes a thread too few reads are under way, and a kernel
/// reached 0.40 of a copy's speed (H200, gelu), with one of 2 bytes 0.20. Its elements are `gap`
/// apart, so that those of neighbouring threads lie side by side.
template <class Out, class F, class... Inputs>
struct Strip {
  using T = typename Out::non_const_value_type;
  static constexpr std::int64_t gap = 32;
  static constexpr int count = sizeof(T) == 8 ? 2 : sizeof(T) == 4 ? 4 : 8;

  std::int64_t n;
  Out out;
  F f;
  std::tuple<Inputs...> inputs;

  [[nodiscard]] std::int64_t threads() const { return (n + gap * count - 1) / (gap * count) * gap; }
  KOKKOS_FUNCTION void operator()(std::int64_t thread) const {
    compute(thread / gap * (gap * count) + thread % gap, std::index_sequence_for<Inputs...>());
  }

 private:
  template <std::size_t... k>
  KOKKOS_FUNCTION void compute(std::int64_t begin, std::index_sequence<k...> /*k*/) const {
    if (begin + (count - 1) * gap < n) {
      std::tuple<std::decay_t<decltype(std::get<k>(inputs)(begin))>...> values[count];
      for (int j = 0; j < count; ++j)
        ((std::get<k>(values[j]) = std::get<k>(inputs)(begin + j * gap)), ...);
      for (int j = 0; j < count; ++j) out(begin + j * gap) = f(std::get<k>(values[j])...);
    } else {
      for (std::int64_t i = begin; i < n; i += gap) out(i) = f(std::get<k>(inputs)(i)...);
    }
  }
};

/// A view of elements of 16 bits.
template <class V>
concept IsNarrowView = requires(const V& view) {
  typename V::non_const_value_type;
  view.data();
}
&&sizeof(typename V::non_const_value_type) == 2;

/// The same for views of 16 bits at addresses that are multiples of 16 bytes: a thread's loads are
/// of 8 elements each. By loads of 2 bytes a copy's speed is not to be had.
template <class Out, class F, class... Inputs>
struct PackStrip {
  using T = typename Out::non_const_value_type;
  static constexpr std::int64_t gap = 32, together = 8;
  static constexpr int count = 2;

  std::int64_t n;
  Out out;
  F f;
  std::tuple<Inputs...> inputs;

  [[nodiscard]] bool fits() const {
    const auto is_aligned = [](const auto& view) {
      return reinterpret_cast<std::uintptr_t>(view.data()) % 16 == 0;
    };
    return is_aligned(out) &&
           std::apply([&](const auto&... input) { return (is_aligned(input) && ...); }, inputs);
  }
  [[nodiscard]] std::int64_t threads() const {
    const std::int64_t packs = (n + together - 1) / together;
    return (packs + gap * count - 1) / (gap * count) * gap;
  }
  KOKKOS_FUNCTION void operator()(std::int64_t thread) const {
    const std::int64_t first = thread / gap * (gap * count) + thread % gap, whole = n / together;
    if (first + (count - 1) * gap < whole) {
      compute(first, std::make_integer_sequence<int, count>());
      return;
    }
    for (std::int64_t pack = first; pack < first + count * gap && pack <= whole; pack += gap) {
      if (pack < whole) {
        compute(pack, std::make_integer_sequence<int, 1>());
      } else {
        compute_rest(whole * together, each_input());
      }
    }
  }

 private:
  using each_input = std::index_sequence_for<Inputs...>;

  /// Of packs `first`, `first` + gap, ...
  template <int... j>
  KOKKOS_FUNCTION void compute(std::int64_t first, std::integer_sequence<int, j...> /*j*/) const {
    using Loaded = decltype(load(first, each_input()));
    const Loaded loaded[] = {load(first + j * gap, each_input())...};
    (store(first + j * gap, loaded[j], each_input()), ...);
  }
  template <std::size_t... k>
  [[nodiscard]] KOKKOS_FUNCTION auto load(std::int64_t pack,
                                          std::index_sequence<k...> /*k*/) const {
    return std::tuple(load_pack<together>(std::get<k>(inputs).data(), pack)...);
  }
  template <class Loaded, std::size_t... k>
  KOKKOS_FUNCTION void store(std::int64_t pack, const Loaded& loaded,
                             std::index_sequence<k...> /*k*/) const {
    Pack<T, together> result;
    for (int e = 0; e < together; ++e) result.values[e] = f(std::get<k>(loaded).values[e]...);
    store_pack(result, out.data(), pack);
  }
  template <std::size_t... k>
  KOKKOS_FUNCTION void compute_rest(std::int64_t begin, std::index_sequence<k...> /*k*/) const {
    for (std::int64_t i = begin; i < n; ++i) out(i) = f(std::get<k>(inputs)(i)...);
  }
};

}  // namespace lockstep::detail
