#include <gtest/gtest.h>

#include <algorithm>
#include <lockstep/base/make_room.hpp>

namespace lockstep {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

Clock::duration time_of(Clock::duration waited, std::size_t crowd = 1) {
  const auto start = Clock::now();
  make_room(waited, crowd);
  return Clock::now() - start;
}

TEST(MakeRoom, SleepsForASixtyFourthOfALongWait) {
  EXPECT_GE(time_of(milliseconds(8)), microseconds(125));
  EXPECT_GE(time_of(milliseconds(64)), milliseconds(1));
}

TEST(MakeRoom, NeverSleepsForMoreThanAMillisecondAtATime) {
  auto shortest = Clock::duration::max();  // on a busy machine any of them may take longer
  for (int i = 0; i < 20; ++i) shortest = std::min(shortest, time_of(std::chrono::hours(1)));
  EXPECT_GE(shortest, milliseconds(1));
  EXPECT_LT(shortest, milliseconds(20));
}

TEST(MakeRoom, AThousandThreadsPollLessOften) {
  EXPECT_GE(time_of(std::chrono::hours(1), 1'000'000), milliseconds(8));
  EXPECT_GE(time_of(milliseconds(128), 1'000'000), milliseconds(2));
}

}  // namespace
}  // namespace lockstep
