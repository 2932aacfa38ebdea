#pragma once
// Kernels of embedding_bag for devices. Private to embedding_bag.cpp.
#include <cstdint>

#include <lockstep/tensor/kernels/data/segment_sums.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

namespace lockstep::detail {

/// The bags as kernels see them.
template <class T, class Space>
struct BagViews {
  using Integers = decltype(flat_view<Space, const std::int64_t>(Tensor()));
  using Floats = decltype(flat_view<Space, const T>(Tensor()));

  Integers index, offsets;
  Floats per_sample;  ///< without elements if there are no weights
  std::int64_t entries, bags, padding_idx;
  bool is_mean, is_weighted;

  explicit BagViews(const Bags& b)
      : index(flat_view<Space, const std::int64_t>(b.index)),
        offsets(flat_view<Space, const std::int64_t>(b.offsets)),
        entries(b.index.numel()),
        bags(b.offsets.numel()),
        padding_idx(b.padding_idx),
        is_mean(b.mode == BagMode::mean),
        is_weighted(b.per_sample_weights.defined()) {
    if (is_weighted) per_sample = flat_view<Space, const T>(b.per_sample_weights);
  }

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t bag) const {
    return bag + 1 < bags ? offsets(bag + 1) : entries;
  }
  [[nodiscard]] KOKKOS_FUNCTION bool counts(std::int64_t entry) const {
    return index(entry) != padding_idx;
  }
  /// The bag of an entry: the last one that begins at it or before.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t bag_of(std::int64_t entry) const {
    std::int64_t low = 0, high = bags;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (offsets(middle) <= entry) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
  /// The factor of each row in the sum of a bag, without the entries' own.
  [[nodiscard]] KOKKOS_FUNCTION T share_of(std::int64_t bag) const {
    if (!is_mean) return T{1};
    std::int64_t size = 0;
    for (std::int64_t entry = offsets(bag); entry < end(bag); ++entry) size += counts(entry);
    return T{1} / static_cast<T>(size);
  }
  [[nodiscard]] KOKKOS_FUNCTION T factor(std::int64_t entry, T share) const {
    return is_weighted ? per_sample(entry) : share;
  }
};

// A thread writes one element of y.
template <class T, class Space>
void bag_sum_kernel(const Space& space, const Bags& bags, const Tensor& weight, const Tensor& y) {
  const BagViews<T, Space> views(bags);
  const std::int64_t width = weight.size(1);
  const auto table = view<Space, const T, 2>(weight);
  const auto out = view<Space, T, 2>(y);
  for_each(
      "lockstep::embedding_bag_sum", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const std::int64_t bag = at / width, c = at % width;
        const T share = views.share_of(bag);
        T sum{0};
        for (std::int64_t entry = views.offsets(bag); entry < views.end(bag); ++entry) {
          if (!views.counts(entry)) continue;
          sum += views.factor(entry, share) * table(views.index(entry), c);
        }
        out(bag, c) = sum;
      });
}

// A thread writes one element of y.
template <class T, class Space>
void bag_max_kernel(const Space& space, const Bags& bags, const Tensor& weight, const Tensor& y,
                    const Tensor& chosen) {
  const BagViews<T, Space> views(bags);
  const std::int64_t width = weight.size(1);
  const auto table = view<Space, const T, 2>(weight);
  const auto out = view<Space, T, 2>(y);
  const auto rows = view<Space, std::int64_t, 2>(chosen);
  for_each(
      "lockstep::embedding_bag_max", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const std::int64_t bag = at / width, c = at % width;
        T best{0};
        std::int64_t best_row = -1;
        for (std::int64_t entry = views.offsets(bag); entry < views.end(bag); ++entry) {
          if (!views.counts(entry)) continue;
          const std::int64_t row = views.index(entry);
          const T value = table(row, c);
          if (best_row >= 0 && !(value > best)) continue;
          best = value;
          best_row = row;
        }
        out(bag, c) = best;
        rows(bag, c) = best_row;
      });
}

// Of a maximum a bag counts once, by its first entry of the row.
template <class T, class Space>
void bag_backward_kernel(const Space& space, const Bags& bags, const Tensor& grad_y,
                         const Tensor& chosen, const Tensor& grad_weight) {
  const std::int64_t entries = bags.index.numel();
  const bool is_max = bags.mode == BagMode::max;
  const Tensor homes = Tensor::empty({entries}, DType::i64, bags.index.device());
  const Tensor factors = Tensor::empty({entries}, grad_y.dtype(), bags.index.device());
  const BagViews<T, Space> views(bags);
  const auto home = flat_view<Space, std::int64_t>(homes);
  const auto factor = flat_view<Space, T>(factors);
  for_each(
      "lockstep::embedding_bag_factors", space, views.bags, KOKKOS_LAMBDA(std::int64_t bag) {
        const T share = views.share_of(bag);
        for (std::int64_t entry = views.offsets(bag); entry < views.end(bag); ++entry) {
          home(entry) = bag;
          factor(entry) = views.factor(entry, share);
        }
      });
  const auto sorted = sorted_by_row(space, bags.index);
  const auto entry_of = flat_view<Space, const std::int64_t>(sorted.places);
  const auto row_of = flat_view<Space, const std::int64_t>(sorted.values);
  const auto g = view<Space, const T, 2>(grad_y);
  const auto table = view<Space, T, 2>(grad_weight);
  const auto rows =
      view<Space, const std::int64_t, 2>(is_max ? chosen : bags.index.reshape({entries, 1}));
  const std::int64_t padding_idx = bags.padding_idx;
  for_each_segment_sum<T>(
      space, sorted, grad_weight.size(1),
      KOKKOS_LAMBDA(std::int64_t k, std::int64_t c) {
        const std::int64_t entry = entry_of(k), bag = home(entry), row = row_of(k);
        if (!is_max) return factor(entry) * g(bag, c);
        const bool is_first = k == 0 || row_of(k - 1) != row || home(entry_of(k - 1)) != bag;
        return is_first && rows(bag, c) == row ? g(bag, c) : T{0};
      },
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t c, T sum) {
        if (row != padding_idx) table(row, c) += sum;
      });
}

template <class T, class Space>
void bag_factors_kernel(const Space& space, const Bags& bags, const Tensor& grad_y,
                        const Tensor& weight, const Tensor& grad) {
  const BagViews<T, Space> views(bags);
  const auto g = view<Space, const T, 2>(grad_y);
  const auto table = view<Space, const T, 2>(weight);
  const auto out = flat_view<Space, T>(grad);
  for_each_row(
      "lockstep::embedding_bag_backward_factors", space, views.entries, weight.size(1),
      KOKKOS_LAMBDA(std::int64_t entry, const Lanes<Space>& lanes) {
        if (!views.counts(entry)) return;
        const std::int64_t bag = views.bag_of(entry), row = views.index(entry);
        const T product = lanes.sum([&](std::int64_t c) { return g(bag, c) * table(row, c); });
        lanes.once([&] { out(entry) += product; });
      });
}

}  // namespace lockstep::detail
