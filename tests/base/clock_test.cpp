#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <thread>

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

TEST(Clock, BoundsLongDurationsToAHundredYears) {
  using namespace std::chrono;
  EXPECT_EQ(bounded(milliseconds(1500)), seconds(1) + milliseconds(500));
  EXPECT_EQ(bounded(microseconds(-3)), microseconds(-3));
  EXPECT_EQ(bounded(milliseconds::max()), hours(24 * 365 * 100));
  EXPECT_EQ(bounded(hours::max()), hours(24 * 365 * 100));
  EXPECT_GT(Clock::now() + bounded(milliseconds::max()), Clock::now());
}

TEST(Clock, KnowsTheStartOfThisProcessToATick) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const auto before = Clock::now();
  const pid_t child = fork();
  if (child == 0) {  // the process starts with fork; its clock is first read here
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const double age = seconds_since_process_start();
    _exit(write(ends[1], &age, sizeof age) == sizeof age ? 0 : 1);
  }
  double age = 0;
  ASSERT_EQ(read(ends[0], &age, sizeof age), static_cast<ssize_t>(sizeof age));
  EXPECT_LE(age, seconds_since(before) + 0.01);
  EXPECT_GE(age, 0.05);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
  close(ends[0]);
  close(ends[1]);
}

TEST(Clock, PrintsAMomentInUtc) {
  const std::chrono::system_clock::time_point moment{std::chrono::seconds(1'709'210'096)};
  EXPECT_EQ(utc_text("%Y-%m-%dT%H:%M:%SZ", moment), "2024-02-29T12:34:56Z");
  EXPECT_EQ(utc_text("%Y", moment + std::chrono::hours(24 * 366 * 100)), "2124");
  const auto before = std::chrono::system_clock::now();
  EXPECT_GE(utc_text("%Y-%m-%d %H:%M:%S"), utc_text("%Y-%m-%d %H:%M:%S", before));
}

}  // namespace
}  // namespace lockstep
