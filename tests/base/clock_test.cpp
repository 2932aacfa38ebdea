#include <gtest/gtest.h>

#include <lockstep/base/clock.hpp>

namespace lockstep {
namespace {

TEST(Clock, CountsSecondsAndNeverGoesBack) {
  const auto start = Clock::now();
  const auto first = seconds_since(start);
  EXPECT_GE(first, 0.0);
  EXPECT_GE(seconds_since(start), first);
  EXPECT_GE(seconds_since(start - std::chrono::minutes(2)), 120.0);
}

}  // namespace
}  // namespace lockstep
