#include <lockstep/tensor/kernels/packed_row.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

template <int n>
void expect_each_column_once(std::int64_t begin, std::int64_t width) {
  const detail::PackedRow<n> row(begin, width);
  std::vector<int> seen(static_cast<std::size_t>(width), 0);
  int* const uses = seen.data();
  for (std::int64_t p = 0; p < row.packs(); ++p) {
    row.each(p, [&](std::int64_t c) {
      if (c >= 0 && c < width) ++uses[c];
    });
  }
  EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(width), 1)) << begin << " " << width;
}

TEST(PackedRow, GoesThroughEachColumnOnce) {
  for (std::int64_t begin = 0; begin < 20; ++begin) {
    for (const std::int64_t width : {128, 129, 135, 136, 143, 1000}) {
      expect_each_column_once<8>(begin, width);
      expect_each_column_once<4>(begin, width);
      expect_each_column_once<2>(begin, width);
    }
    for (const std::int64_t width : {0, 1, 7, 100}) expect_each_column_once<1>(begin, width);
  }
  for (std::int64_t begin = 0; begin < 9; ++begin) {
    expect_each_column_once<4>(begin, 32);
    expect_each_column_once<2>(begin, 8);
  }
}

}  // namespace
}  // namespace lockstep
