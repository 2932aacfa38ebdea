#include <lockstep/train/run/stop_agreement.hpp>

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <thread>

#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/run/slurm_time.hpp>

namespace lockstep::train {
namespace {

TEST(StopAgreement, IsOnTheHighestReasonAndStays) {
  run_ranks_as_threads(3, [](ProcessGroup& group) {
    constexpr std::array reasons{StopReason::none, StopReason::max_minutes, StopReason::sigterm};
    StopAgreement stop(group);
    EXPECT_EQ(stop.answer(), StopReason::none) << "before anybody asked";
    stop.ask(StopReason::none);
    EXPECT_EQ(stop.answer(), StopReason::none);
    stop.ask(reasons[static_cast<std::size_t>(group.rank())]);
    stop.ask(StopReason::none);  // nobody asked for the answer: it is not lost
    EXPECT_EQ(stop.answer(), StopReason::max_minutes);
    EXPECT_EQ(stop.answer(), StopReason::max_minutes);
  });
}

// One test: a stop request to a process cannot be withdrawn.
TEST(StopAgreement, IsReachedInTheStepOfTheSignalByRanksOfUnequalPace) {
  listen_for_stop_requests();
  constexpr int ranks = 3, signalled = 400;
  std::array<int, ranks> stopped_at{};
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    StopAgreement stop(group);
    int step = 0;
    do {
      ASSERT_LT(++step, 100'000);
      if (rank == 1 && step == signalled) {
        std::raise(SIGUSR1);
        std::raise(SIGTERM);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100 * rank));
      stop.ask(requested_stop());
    } while (stop.answer() == StopReason::none);
    stopped_at[rank] = step;
    EXPECT_EQ(stop.answer(), StopReason::sigterm);
  });
  for (const int step : stopped_at) EXPECT_EQ(step, signalled);
}

TEST(SlurmTime, IsReadAsSqueuePrintsIt) {
  EXPECT_EQ(seconds_of_slurm_time("0:00"), 0);
  EXPECT_EQ(seconds_of_slurm_time("3:07"), 187);
  EXPECT_EQ(seconds_of_slurm_time("1:02:03"), 3723);
  EXPECT_EQ(seconds_of_slurm_time("2-01:02:03"), 2 * 86400 + 3723);
  for (const char* other : {"", "UNLIMITED", "NOT_SET", "INVALID", "3", "3:", ":3", "1-2:3",
                            "1:2:3:4", "-1:00", "1 :2"})
    EXPECT_EQ(seconds_of_slurm_time(other), std::nullopt) << other;
}

TEST(SlurmJob, OfAnArrayIsNamedWithItsTask) {
  setenv("SLURM_JOB_ID", "33", 1);
  EXPECT_EQ(slurm_job(), "33");
  setenv("SLURM_ARRAY_JOB_ID", "33", 1);
  setenv("SLURM_ARRAY_TASK_ID", "7", 1);
  EXPECT_EQ(slurm_job(), "33_7");
  for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"})
    unsetenv(name);
  EXPECT_EQ(slurm_job(), "");
}

TEST(SlurmTime, OfTheEndIsCountedFromNow) {
  EXPECT_EQ(seconds_until("1100", 1000), 100);
  EXPECT_EQ(seconds_until("99999999999999", 1000), 99999999998999.0);
  EXPECT_EQ(seconds_until("99999999999999999999", 1000), std::numeric_limits<double>::infinity());
  for (const char* other : {"", "0", "1000", "-5", "-99999999999999999999", "1e9", "1100s", "inf"})
    EXPECT_EQ(seconds_until(other, 1000), std::nullopt) << other;
}

}  // namespace
}  // namespace lockstep::train
