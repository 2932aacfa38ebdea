#pragma once
// Sums of the elements that belong to the same row of a table: backward passes of embeddings and of
// gather on a GPU. Private to the kernels' .cpp files.
#include <array>

#include <lockstep/tensor/kernels/device_loops.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>
#include <lockstep/tensor/kernels/reduce/sort_kernels.hpp>

namespace lockstep::detail {

/// The elements of an index of rows, sorted; among equals the first comes first.
template <class Space>
[[nodiscard]] SortedRuns<std::int64_t> sorted_by_row(const Space& space, const Tensor& index) {
  const std::int64_t all = index.numel();
  return sorted_rows<std::int64_t>(space, index, Shape{1, all, 1}, false, all);
}

/// Elements in the order of their rows, `length` at a time. The elements of a row are a segment,
/// which may go over several blocks.
template <class Space>
class SegmentBlocks {
 public:
  static constexpr std::int64_t length = 32;

  explicit SegmentBlocks(const SortedRuns<std::int64_t>& sorted)
      : rows_(flat_view<Space, const std::int64_t>(sorted.values)), all_(sorted.values.numel()) {}

  [[nodiscard]] std::int64_t count() const { return (all_ + length - 1) / length; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t row(std::int64_t k) const { return rows_(k); }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t begin(std::int64_t block) const {
    return block * length;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t block) const {
    return (block + 1) * length < all_ ? (block + 1) * length : all_;
  }
  /// Whether element k is its segment's last.
  [[nodiscard]] KOKKOS_FUNCTION bool is_last(std::int64_t k) const {
    return k + 1 == all_ || rows_(k + 1) != rows_(k);
  }
  /// Whether the block's first segment began before it.
  [[nodiscard]] KOKKOS_FUNCTION bool continues(std::int64_t block) const {
    return block > 0 && !is_last(begin(block) - 1);
  }
  /// The last block with elements of k's segment.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t last_block(std::int64_t k) const {
    std::int64_t low = k, high = all_;  // the segment's last element is in [low, high)
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (rows_(middle) == rows_(k) ? low : high) = middle;
    }
    return low / length;
  }

 private:
  decltype(flat_view<Space, const std::int64_t>(Tensor())) rows_;
  std::int64_t all_;
};

/// add(row, c, sum) for the columns c < `width` of each row that has elements, where `sum`, a Wide,
/// is that of value(k, c) over the row's elements: k-th in the order of sorted_by_row(). A thread
/// sums a column of a block; then one adds up the parts of a segment in several blocks. The bits do
/// not depend on threads.
template <class Wide, class Space, class Value, class Add>
void for_each_segment_sum(const Space& space, const SortedRuns<std::int64_t>& sorted,
                          std::int64_t width, const Value& value, const Add& add) {
  const SegmentBlocks<Space> blocks(sorted);
  const std::int64_t count = blocks.count();
  if (count * width == 0) return;
  // Of each block: the parts of its first segment, if it began before, and of its last.
  const Tensor parts = Tensor::empty({2, count, width}, dtype_of<Wide>, sorted.values.device());
  const auto part = view<Space, Wide, 3>(parts);
  const Divisor by_width(width, count * width);
  for_each(
      "lockstep::sums_of_blocks", space, count * width, KOKKOS_LAMBDA(std::int64_t i) {
        constexpr int ahead = 8;
        const std::int64_t b = by_width.quotient(i), c = i - b * width, end = blocks.end(b);
        bool began_before = blocks.continues(b);
        Wide sum{0};
        for (std::int64_t k = blocks.begin(b); k < end; k += ahead) {
          Wide values[ahead];
          for (int j = 0; j < ahead; ++j) values[j] = value(k + j < end ? k + j : k, c);
          for (int j = 0; j < ahead; ++j) {
            if (k + j >= end) break;
            sum += values[j];
            const bool is_last = blocks.is_last(k + j);
            if (!is_last && k + j + 1 < end) continue;
            if (began_before) {
              part(0, b, c) = sum;
            } else if (!is_last) {
              part(1, b, c) = sum;
            } else {
              add(blocks.row(k + j), c, sum);
            }
            sum = Wide{0};
            began_before = false;
          }
        }
      });
  for_each(
      "lockstep::sums_over_blocks", space, count * width, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t b = by_width.quotient(i), c = i - b * width, k = blocks.end(b) - 1;
        const bool began_before =
            blocks.continues(b) && blocks.row(blocks.begin(b)) == blocks.row(k);
        if (blocks.is_last(k) || began_before) return;
        const auto rest = sums_of_rows<8, Wide, 1>(
            b + 1, blocks.last_block(k) + 1,
            [&](std::int64_t block) { return std::array<Wide, 1>{part(0, block, c)}; });
        add(blocks.row(k), c, part(1, b, c) + rest[0]);
      });
}

}  // namespace lockstep::detail
