#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep {

/// A micro-batch: rows [begin, end) of the batch.
struct Microbatch {
  int number = 0;
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t rows() const noexcept { return end - begin; }
};

/// A batch of `rows` cut into `count` micro-batches: runs of rows in their order, whose sizes
/// differ by at most one, the longer ones first.
[[nodiscard]] inline std::vector<Microbatch> cut_into_microbatches(std::int64_t rows, int count) {
  std::vector<Microbatch> all;
  for (std::int64_t k = 0; k < count; ++k) {
    const auto begin_of = [&](std::int64_t i) {
      return i * (rows / count) + std::min(i, rows % count);
    };
    all.push_back({static_cast<int>(k), begin_of(k), begin_of(k + 1)});
  }
  return all;
}

}  // namespace lockstep
