#include <lockstep/tensor/kernels/reduce/sort.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/reduce/sort_kernels.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>

namespace lockstep {
namespace {

template <class T>
struct KeyOf;
template <>
struct KeyOf<float> {
  using type = std::uint32_t;
};
template <>
struct KeyOf<double> {
  using type = std::uint64_t;
};

/// An unsigned number with the order of x: NaN last, -0 equal to 0.
template <class T>
typename KeyOf<T>::type key_of(T x) {
  using Key = typename KeyOf<T>::type;
  constexpr Key sign = Key{1} << (8 * sizeof(Key) - 1);
  const Key bits = std::bit_cast<Key>(x + T{0});
  const Key key = (bits & sign) != 0 ? ~bits : bits | sign;
  return x == x ? key : ~Key{0};
}

template <class Key>
struct Entry {
  Key key;
  std::uint32_t index;
};

/// Rows of at most this many elements are sorted by comparisons.
constexpr std::int64_t short_row = 192;

/// Stable radix sort by key: byte by byte from the lowest, without the bytes that are equal in all
/// keys. The result is in `a`; b has the same size.
template <class Key>
void radix_sort(std::vector<Entry<Key>>& a, std::vector<Entry<Key>>& b) {
  constexpr int bytes = sizeof(Key);
  std::array<std::array<std::uint32_t, 256>, bytes> counts{};
  for (const auto& entry : a) {
    for (int k = 0; k < bytes; ++k) ++counts[k][(entry.key >> (8 * k)) & 0xFF];
  }
  for (int k = 0; k < bytes; ++k) {
    auto& count = counts[static_cast<std::size_t>(k)];
    if (count[(a[0].key >> (8 * k)) & 0xFF] == a.size()) continue;
    std::uint32_t sum = 0;
    for (auto& c : count) sum += std::exchange(c, sum);
    for (const auto& entry : a) b[count[(entry.key >> (8 * k)) & 0xFF]++] = entry;
    a.swap(b);
  }
}

/// Memory that a thread keeps: a row allocates only if it is longer than all before.
template <class Key>
struct Scratch {
  std::vector<Entry<Key>> a, b;
  static Scratch& of_this_thread() {
    static thread_local Scratch scratch;
    return scratch;
  }
};

template <class T, class Key>
void fill_keys(const T* x, std::int64_t width, std::int64_t inner, bool descending,
               std::vector<Entry<Key>>& entries) {
  entries.resize(static_cast<std::size_t>(width));
  for (std::int64_t c = 0; c < width; ++c) {
    const Key key = key_of(x[c * inner]);
    entries[static_cast<std::size_t>(c)] = {descending ? static_cast<Key>(~key) : key,
                                            static_cast<std::uint32_t>(c)};
  }
}

template <class Key>
bool before(const Entry<Key>& a, const Entry<Key>& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}

/// Few of many. Flattened: with calls of `before` topk took 1.28 times as long.
template <class Key>
LOCKSTEP_FLATTEN void bring_few_forward(std::vector<Entry<Key>>& a, std::int64_t count) {
  std::partial_sort(a.begin(), a.begin() + count, a.end(), before<Key>);
}

/// Sorts the first `count` of `entries` to the front.
template <class Key>
void bring_forward(std::vector<Entry<Key>>& a, std::vector<Entry<Key>>& b, std::int64_t count) {
  const auto n = static_cast<std::int64_t>(a.size());
  if (count == n && n > short_row) {
    b.resize(a.size());
    return radix_sort(a, b);
  }
  if (count < n) {
    if (count * 16 <= n) return bring_few_forward(a, count);
    std::nth_element(a.begin(), a.begin() + (count - 1), a.end(), before<Key>);
  }
  std::sort(a.begin(), a.begin() + count, before<Key>);
}

template <class T>
void order_rows(const HostArray& x, const Shape& shape, bool descending, std::int64_t count,
                const HostArray& values, const HostArray& indices) {
  using Key = typename KeyOf<T>::type;
  const std::int64_t width = shape[1], inner = shape[2];
  const auto* const in = static_cast<const T*>(x.data());
  auto* const out = static_cast<T*>(values.data());
  auto* const where = static_cast<std::int64_t*>(indices.data());
  for_each("lockstep::sort", HostExecutionSpace(), shape[0] * inner, [=](std::int64_t r) {
    auto& [a, b] = Scratch<Key>::of_this_thread();
    const T* const row = in + r / inner * width * inner + r % inner;
    const std::int64_t to = r / inner * count * inner + r % inner;
    fill_keys(row, width, inner, descending, a);
    bring_forward(a, b, count);
    for (std::int64_t c = 0; c < count; ++c) {
      const auto index = static_cast<std::int64_t>(a[static_cast<std::size_t>(c)].index);
      out[to + c * inner] = row[index * inner];
      where[to + c * inner] = index;
    }
  });
}

void order_along(const char* operation, const Tensor& x, int dim, bool descending,
                 const Tensor& values, const Tensor& indices) {
  const Shape shape = detail::around(x.shape(), dim);
  if (shape[1] > 0xFFFFFFFFLL) {
    throw ShapeError(std::string(operation) + " of " + describe(x) +
                     ": a row has at most 2^32 - 1 elements");
  }
  if (values.numel() == 0) return;
  const std::int64_t count = detail::extent_along(values.shape(), dim);
  ensure_kokkos();
  dispatch_floating(x.dtype(), operation, [&]<class T>() {
    host_or_kernels(
        operation,
        [=](const HostArray& in, const HostArray& out, const HostArray& where) {
          order_rows<T>(in, shape, descending, count, out, where);
        },
        [&](const auto& space) {
          detail::order_kernels<T>(space, x, shape, descending, count, values, indices);
        },
        x, values, indices);
  });
}

template <class T, class Space>
void scatter_kernel(const Space& space, const Tensor& grad_y, const Tensor& indices,
                    const Shape& from, const Shape& to, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto where = flat_view<Space, const std::int64_t>(indices);
  const auto out = flat_view<Space, T>(grad_x);
  const std::int64_t inner = from[2], count = from[1], width = to[1];
  // The indices of a row differ.
  const auto add = KOKKOS_LAMBDA(std::int64_t r, std::int64_t c) {
    const std::int64_t y = (r / inner * count + c) * inner + r % inner;
    out((r / inner * width + where(y)) * inner + r % inner) += g(y);
  };
  if constexpr (is_host_space<Space>) {
    for_each("lockstep::scatter_along", space, from[0] * inner, [=](std::int64_t r) {
      for (std::int64_t c = 0; c < count; ++c) add(r, c);
    });
  } else {
    for_each(
        "lockstep::scatter_along", space, from[0] * inner * count,
        KOKKOS_LAMBDA(std::int64_t i) { add(i / count, i % count); });
  }
}

}  // namespace

void sort_along(const Tensor& x, int dim, bool descending, const Tensor& values,
                const Tensor& indices) {
  order_along("sort", x, dim, descending, values, indices);
}

void topk_along(const Tensor& x, int dim, bool largest, const Tensor& values,
                const Tensor& indices) {
  order_along("topk", x, dim, largest, values, indices);
}

void scatter_along(const Tensor& grad_y, const Tensor& indices, int dim, bool accumulate,
                   const Tensor& grad_x) {
  if (!accumulate) fill(grad_x, 0.0);
  const Shape from = detail::around(grad_y.shape(), dim), to = detail::around(grad_x.shape(), dim);
  dispatch(current_stream(grad_x.device()), [&](const auto& space) {
    dispatch_floating(grad_x.dtype(), "scatter_along", [&]<class T>() {
      scatter_kernel<T>(space, grad_y, indices, from, to, grad_x);
    });
  });
}

}  // namespace lockstep
