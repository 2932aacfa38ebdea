#include <lockstep/tensor/kernels/packed_row.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

template <int n>
void expect_each_column_once(std::int64_t begin, std::int64_t width) {
  const detail::PackedRow<n> row(begin, width);
  const Lanes<HostExecutionSpace> lanes(width);
  const auto all = static_cast<std::size_t>(width);
  std::vector<int> seen(all, 0);
  const int uses = row.template sum<int>(lanes, [&](std::int64_t c) {
    if (c >= 0 && c < width) ++seen[static_cast<std::size_t>(c)];
    return 1;
  });
  EXPECT_EQ(seen, std::vector<int>(all, 1)) << begin << " " << width;
  EXPECT_EQ(uses, width);
  const Tensor numbers = Tensor::full({begin + width}, 1);
  auto* const data = static_cast<float*>(numbers.data());
  row.set(
      lanes, true, data, [](std::int64_t c, float value) { return value + static_cast<float>(c); },
      data);
  for (std::int64_t i = 0; i < numbers.numel(); ++i) {
    EXPECT_EQ(data[i], i < begin ? 1.0F : 2.0F + static_cast<float>(i - begin)) << i;
  }
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
