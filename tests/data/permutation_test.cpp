#include <lockstep/data/batches/permutation.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

std::vector<std::int64_t> order(std::int64_t n, std::uint64_t seed, std::int64_t epoch) {
  Permutation permutation(n, seed);
  permutation.set_epoch(epoch);
  return {permutation.indices().begin(), permutation.indices().end()};
}

TEST(Permutation, HoldsEverySampleOnce) {
  for (const std::int64_t n : {0, 1, 2, 3, 1000, 60000}) {
    auto all = order(n, 1234, 9);
    std::sort(all.begin(), all.end());
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
    ASSERT_EQ(std::ssize(all), n);
  }
}

TEST(Permutation, IsAFunctionOfSeedAndEpochAlone) {
  Permutation walked(100, 5);
  for (const std::int64_t epoch : {3, 0, 7, 2}) walked.set_epoch(epoch);
  EXPECT_TRUE(std::ranges::equal(walked.indices(), order(100, 5, 2)));
  EXPECT_NE(order(100, 5, 2), order(100, 5, 3));
  EXPECT_NE(order(100, 5, 2), order(100, 6, 2));
}

TEST(Permutation, EveryOrderOfThreeIsAboutEquallyLikely) {
  std::array<int, 27> counts{};
  const int draws = 6000;
  for (int epoch = 0; epoch < draws; ++epoch) {
    const auto p = order(3, 1, epoch);
    ++counts.at(static_cast<std::size_t>(p[0] * 9 + p[1] * 3 + p[2]));
  }
  // Six orders of 1000 +- 29 each: chance never exceeds 5 deviations.
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 0), 27 - 6);
  for (const int count : counts) {
    EXPECT_TRUE(count == 0 || std::abs(count - draws / 6) < 150) << count;
  }
}

TEST(Permutation, WithoutShufflingEveryEpochIsTheFilesOrder) {
  Permutation plain(5, 1, {.on = false});
  plain.set_epoch(8);
  EXPECT_TRUE(std::ranges::equal(plain.indices(), std::vector<std::int64_t>{0, 1, 2, 3, 4}));
}

TEST(Permutation, SizesThatCannotBeShuffledAreRefused) {
  EXPECT_THROW(Permutation(-1, 1), InputError);
  EXPECT_THROW(Permutation(std::int64_t{1} << 32U, 1), InputError);
}

std::vector<std::int64_t> windowed(std::int64_t n, std::int64_t window, std::int64_t epoch) {
  Permutation permutation(n, 1234, {.window = window});
  permutation.set_epoch(epoch);
  return {permutation.indices().begin(), permutation.indices().end()};
}

TEST(WindowedPermutation, HoldsEverySampleOnceAndChangesWithTheEpoch) {
  for (const std::int64_t n : {0, 1, 7, 1000, 1003}) {
    for (const std::int64_t window : {1, 5, 8, 64, 5000}) {
      auto all = windowed(n, window, 9);
      EXPECT_EQ(all, windowed(n, window, 9));
      if (n >= 1000) {
        EXPECT_NE(all, windowed(n, window, 10)) << n << ' ' << window;
      }
      std::sort(all.begin(), all.end());
      for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(all[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST(WindowedPermutation, WindowTouchesEightPiecesInShuffledOrder) {
  constexpr std::int64_t n = 64000, window = 640, piece = window / 8;
  const auto order_of_epoch = windowed(n, window, 0);
  double far_apart = 0;
  for (std::int64_t at = 0; at < n; at += window) {
    const auto begin = order_of_epoch.begin() + at;
    std::set<std::int64_t> pieces;
    for (auto i = begin; i != begin + window; ++i) pieces.insert(*i / piece);
    EXPECT_EQ(pieces.size(), 8U);
    EXPECT_FALSE(std::is_sorted(begin, begin + window));
    far_apart += static_cast<double>(*pieces.rbegin() - *pieces.begin()) * piece;
  }
  // The span of 8 random places is 7/9 of the whole on average.
  EXPECT_NEAR(far_apart / (n / window) / n, 7.0 / 9.0, 0.05);
}

TEST(WindowedPermutation, NegativeWindowIsRefused) {
  EXPECT_THROW(Permutation(10, 1, {.window = -1}), InputError);
}

}  // namespace
}  // namespace lockstep
