#include <lockstep/data/batches/partitioner.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/mt19937.hpp>

namespace lockstep {
namespace {

TEST(PythonRandom, SeedsOfMoreThan32BitsAreTwoWords) {
  // python3 -c 'import random; print(random.Random(2**40 + 7).getrandbits(32))'
  EXPECT_EQ(PythonRandom((std::uint64_t{1} << 40U) + 7).next_u32(), 2635837658U);
}

TEST(PythonRandom, SeedZeroIsOneWord) {
  // python3 -c 'import random; print(random.Random(0).getrandbits(32))'
  EXPECT_EQ(PythonRandom(0).next_u32(), 3626764237U);
}

TEST(DataPartitioner, PartsAreDisjointAndOfTheFractionsSizes) {
  const std::vector<double> fractions{0.5, 0.25, 0.25};
  const DataPartitioner parts(1001, fractions, 7);
  ASSERT_EQ(parts.size(), 3U);
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts.part(i).size(), static_cast<std::size_t>(fractions[i] * 1001));
    all.insert(all.end(), parts.part(i).begin(), parts.part(i).end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
  EXPECT_GE(all.front(), 0);
  EXPECT_LE(all.back(), 1000);
}

TEST(DataPartitioner, FractionsThatCannotBeAreRefused) {
  const auto make = [](std::vector<double> fractions) { DataPartitioner(100, fractions); };
  EXPECT_THROW(make({0.5, -0.1}), InputError);
  EXPECT_THROW(make({std::numeric_limits<double>::quiet_NaN()}), InputError);
  EXPECT_THROW(make({0.7, 0.7}), InputError);
  EXPECT_THROW(make({1.5}), InputError);
}

TEST(DataPartitioner, PartBeyondTheLastIsRefused) {
  const std::vector<double> whole{1.0};
  EXPECT_THROW(static_cast<void>(DataPartitioner(10, whole).part(1)), Error);
}

}  // namespace
}  // namespace lockstep
