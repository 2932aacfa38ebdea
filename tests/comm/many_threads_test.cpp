// More ranks than any machine has cores, as threads.
#include <atomic>

#include <gtest/gtest.h>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep {
namespace {

// Waiting ranks kept the cores from those that had not begun: it took over five minutes.
TEST(ManyThreads, AThousandRanksMeetInSeconds) {
  constexpr int ranks = 1024;
  std::atomic<int> right = 0;
  run_ranks_as_threads(ranks,
                       [&](ProcessGroup& group) {
                         if (all_reduce_scalar(group, 1.0, ReduceOp::sum) == ranks) ++right;
                         group.barrier();
                       },
                       {.timeout = std::chrono::seconds(60)});
  EXPECT_EQ(right, ranks);
}

}  // namespace
}  // namespace lockstep
