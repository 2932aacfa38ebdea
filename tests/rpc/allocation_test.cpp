// Calls allocate nothing, once some have been made.
#include <gtest/gtest.h>
#include <rpc/workers.hpp>
#include <support/allocation_counter.hpp>

namespace lockstep {
namespace {

float same_number(float x) { return x; }
LOCKSTEP_RPC(same_number);

// Threads share the work as it comes, and what each keeps for its next call grows once: a call that
// allocated would do so in every window, so one window without is the proof.
TEST(Allocation, CallsOfNumbersAllocateNothing) {
  test::on_workers([](ProcessGroup& group) {
    double allocations = 1.0;
    for (int window = 0; window < 50 && allocations > 0.0; ++window) {
      group.barrier();
      const auto before = test::allocation_count() + memory_stats().system_allocations;
      for (int i = 0; i < 200; ++i) {
        if (rpc::rpc_sync(test::after(group), same_number, 2.0F) != 2.0F) ADD_FAILURE();
      }
      const auto after = test::allocation_count() + memory_stats().system_allocations;
      group.barrier();
      allocations = all_reduce_scalar(group, static_cast<double>(after - before), ReduceOp::max);
    }
    EXPECT_EQ(allocations, 0.0);
  });
}

}  // namespace
}  // namespace lockstep
