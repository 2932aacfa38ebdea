#include <lockstep/train/stop_agreement.hpp>

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <thread>

#include <lockstep/comm/threads_group.hpp>
#include <lockstep/train/stop_request.hpp>

namespace lockstep::train {
namespace {

// One test: what a process was asked cannot be taken back.
TEST(StopAgreement, IsReachedAtOneStepByRanksOfUnequalPaceSoonAfterTheSignal) {
  listen_for_stop_requests();
  constexpr int ranks = 3, signalled = 400;
  std::array<int, ranks> stopped_at{};
  std::array<double, ranks> late_s{};
  std::array<Clock::time_point, ranks> raised{};
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    StopAgreement stop(group);
    int step = 0;
    for (; !stop.stop_now(); ++step) {
      ASSERT_LT(step, 100'000);
      if (rank == 1 && step == signalled) {
        raised[rank] = Clock::now();
        std::raise(SIGTERM);
        std::raise(SIGUSR1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds(100 * rank));
    }
    stopped_at[rank] = step;
    if (rank == 1) late_s[rank] = seconds_since(raised[rank]);
    EXPECT_TRUE(stop.stop_now()) << "a stop stays agreed";
  });
  EXPECT_GT(stopped_at[1], signalled);
  EXPECT_EQ(stopped_at[0], stopped_at[1]);
  EXPECT_EQ(stopped_at[2], stopped_at[1]);
  EXPECT_LT(late_s[1], 10 * StopAgreement::seconds_between);
}

}  // namespace
}  // namespace lockstep::train
