#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

constexpr std::uint64_t join(std::uint32_t low, std::uint32_t high) {
  return (std::uint64_t{high} << 32) | low;
}

// Random123's known-answer vectors (tests/kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, MatchesTheKnownAnswersOfRandom123) {
  EXPECT_EQ(Philox(0)(0, 0, 0, 0), (Philox::Block{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  constexpr std::uint32_t ones = 0xFFFFFFFF;
  EXPECT_EQ(Philox(join(ones, ones))(ones, ones, ones, ones),
            (Philox::Block{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(Philox(join(0xA4093822, 0x299F31D0))(0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (Philox::Block{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Philox, IsAvailableToTheCompiler) { static_assert(Philox(0)(0, 0, 0, 0)[0] == 0x6627E8D5); }

TEST(Philox, UniformLiesInTheHalfOpenUnitInterval) {
  EXPECT_EQ(Philox::uniform(0), 0.0F);
  EXPECT_EQ(Philox::uniform(0x80000000U), 0.5F);
  EXPECT_EQ(Philox::uniform(0xFFFFFFFFU), 1.0F - 0x1.0p-24F);
}

TEST(PhiloxSequence, HandsOutTheWordsOfConsecutiveCounters) {
  const std::uint64_t stream = 0x123456789ABCDEF0;
  PhiloxSequence sequence(42, stream);
  for (std::uint32_t counter = 0; counter < 3; ++counter) {
    for (const auto word : Philox(42)(counter, 0, 0x9ABCDEF0, 0x12345678)) {
      EXPECT_EQ(sequence.next_u32(), word);
    }
  }
}

TEST(PhiloxSequence, StreamsAndSeedsAreDifferentSequences) {
  PhiloxSequence first(1, 0), other_stream(1, 1), other_seed(2, 0);
  const auto word = first.next_u32();
  EXPECT_NE(other_stream.next_u32(), word);
  EXPECT_NE(other_seed.next_u32(), word);
}

TEST(PhiloxSequence, BelowOneIsZero) {
  PhiloxSequence sequence(1, 0);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sequence.below(1), 0U);
}

TEST(PhiloxSequence, BelowReachesEveryValueEquallyOften) {
  constexpr std::uint32_t n = 10;
  constexpr int draws = 100000;
  std::array<int, n> counts{};
  PhiloxSequence sequence(1234, 7);
  for (int i = 0; i < draws; ++i) {
    const auto value = sequence.below(n);
    ASSERT_LT(value, n);
    ++counts[value];
  }
  // Standard deviation of a count: sqrt(100000 * 0.1 * 0.9) = 95; the seed is fixed.
  for (const auto count : counts) EXPECT_NEAR(count, draws / n, 400);
}

TEST(PhiloxSequence, BelowIsUnbiasedWhereAMultiplicationAloneIsNot) {
  // n = 3 * 2^30: without rejection the values 0 mod 3 would come twice as often as the others.
  constexpr std::uint32_t n = 3U << 30;
  constexpr int draws = 30000;
  std::array<int, 3> counts{};
  PhiloxSequence sequence(1234, 8);
  for (int i = 0; i < draws; ++i) {
    const auto value = sequence.below(n);
    ASSERT_LT(value, n);
    ++counts[value % 3];
  }
  // Standard deviation: sqrt(30000 * 2/9) = 82; biased counts would be 15000, 7500, 7500.
  for (const auto count : counts) EXPECT_NEAR(count, draws / 3, 400);
}

TEST(PhiloxSequence, UniformHasMeanOneHalf) {
  PhiloxSequence sequence(1234, 9);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const float value = sequence.uniform();
    ASSERT_GE(value, 0.0F);
    ASSERT_LT(value, 1.0F);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);  // five standard deviations of the mean
}

}  // namespace
}  // namespace lockstep
