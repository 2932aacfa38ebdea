#include <lockstep/tensor/kernels/data/segment_sums.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

/// Whole numbers: their sums are exact.
KOKKOS_FUNCTION double number(std::int64_t element, std::int64_t column) {
  return static_cast<double>(element * 7 % 101 + column * 1000);
}

void expect_sums(const std::vector<std::int64_t>& index, std::int64_t rows, std::int64_t width) {
  SCOPED_TRACE(testing::Message() << index.size() << " elements of " << rows << " rows");
  const auto cells = static_cast<std::size_t>(rows * width);
  std::vector<double> expected(cells, 0), sums(cells, 0);
  std::vector<int> additions(cells, 0), expected_additions(cells, 0);
  for (std::size_t i = 0; i < index.size(); ++i) {
    for (std::int64_t c = 0; c < width; ++c) {
      const auto cell = static_cast<std::size_t>(index[i] * width + c);
      expected[cell] += number(static_cast<std::int64_t>(i), c);
      expected_additions[cell] = 1;
    }
  }
  const HostExecutionSpace space;
  const auto sorted = detail::sorted_by_row(space, Tensor::from(index));
  const auto* const places = static_cast<const std::int64_t*>(sorted.places.data());
  double* const sum_of = sums.data();
  int* const additions_to = additions.data();
  detail::for_each_segment_sum<double>(
      space, sorted, width,
      KOKKOS_LAMBDA(std::int64_t k, std::int64_t c) { return number(places[k], c); },
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t c, double sum) {
        sum_of[row * width + c] += sum;
        ++additions_to[row * width + c];
      });
  EXPECT_EQ(sums, expected);
  EXPECT_EQ(additions, expected_additions);
}

TEST(SegmentSums, AddEachElementOnceAndEachRowOnce) {
  for (const std::int64_t rows : {1, 2, 5, 400}) {
    for (const std::size_t count : {1, 31, 32, 33, 64, 95, 96, 1000, 3000}) {
      std::vector<std::int64_t> index(count);
      for (std::size_t i = 0; i < count; ++i) {
        index[i] = static_cast<std::int64_t>(i * i * 13 + i * 5) % rows;
      }
      expect_sums(index, rows, 1);
      expect_sums(index, rows, 3);
    }
  }
}

TEST(SegmentSums, OfSegmentsThatBeginAndEndAtAnyPlaceOfABlock) {
  for (std::size_t before = 0; before < 40; ++before) {
    for (const std::size_t inside : {1, 2, 31, 32, 33, 63, 64, 65, 97}) {
      std::vector<std::int64_t> index(before, 0);
      index.insert(index.end(), inside, 1);
      index.insert(index.end(), 5, 2);
      expect_sums(index, 3, 1);
    }
  }
}

}  // namespace
}  // namespace lockstep
