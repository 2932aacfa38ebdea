// nccl groups with Contract::late: NCCL gets a collective at once, and ranks compare their calls
// while it runs.
#include <array>
#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <comm/nccl/ranks.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/nccl/group.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using test::expect_in;
using test::floats;
using test::of;
using test::on_device;
using test::StandIn;

constexpr GroupOptions patient{.timeout = std::chrono::seconds(60), .contract = Contract::late};

void on_late_ranks(int ranks, const test::OnRank& claim,
                   std::shared_ptr<StandIn> nccl = std::make_shared<StandIn>()) {
  test::on_ranks(ranks, claim, patient, std::move(nccl));
}

TEST(NcclLate, NoWaitHoldsAHostUntilTheOthersHaveCalled) {
  std::atomic<bool> is_through = false;
  on_late_ranks(2, [&](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto t = on_device(me, of(10, 1.0F)), u = on_device(me, of(10, 2.0F));
    while (me == 1 && !is_through) std::this_thread::yield();
    group.all_reduce(t, ReduceOp::sum).wait();
    u += t;
    group.all_reduce(u, ReduceOp::sum).wait();
    is_through = true;
    EXPECT_EQ(floats(u), of(10, 8.0F));
  });
}

TEST(NcclLate, AMismatchEndsEveryRankInTheVerdict) {
  const auto nccl = std::make_shared<StandIn>();
  nccl->may_misfit = true;
  on_late_ranks(
      3,
      [](ProcessGroup& group, StandIn&) {
        const int me = group.rank();
        const auto t = on_device(me, of(me == 1 ? 7 : 6, 1.0F));
        const auto message =
            test::message_of<CommError>([&] { group.all_reduce(t, ReduceOp::sum).synchronize(); });
        expect_in(message, "all_reduce(sum) #1 of f32[7]");
        expect_in(message, "all_reduce(sum) #1 of f32[6]");
        expect_in(message, "all ranks must make the same calls");
        static_cast<void>(floats(t));  // which ends: NCCL was made to give up
        expect_in(test::message_of<CommError>([&] { group.barrier(); }), "it failed earlier");
      },
      nccl);
  // Each call runs on its own thread, without a wait.
  const auto start = Clock::now();
  while (nccl->calls("ncclCommAbort") < 3 && seconds_since(start) < 10) std::this_thread::yield();
  EXPECT_EQ(nccl->calls("ncclCommAbort"), 3);
}

// NCCL carries it out, and gives every rank something else.
TEST(NcclLate, AMismatchThatNcclDoesNotSeeIsFoundByTheNextBarrier) {
  on_late_ranks(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto t = on_device(me, of(6, 1.0F));
    const auto message = test::message_of<CommError>([&] {
      group.all_reduce(t, me == 0 ? ReduceOp::sum : ReduceOp::max).wait();
      group.barrier();
    });
    expect_in(message, "another reduction");
  });
}

TEST(NcclLate, ASkippedCallIsAnErrorOnEveryRank) {
  on_late_ranks(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    const auto t = on_device(me, of(6, 1.0F));
    EXPECT_THROW(
        {
          if (me == 0) group.all_reduce(t, ReduceOp::sum).wait();
          test::meet(group);
          group.barrier();
        },
        CommError);
  });
}

TEST(NcclLate, ADeadlineNamesTheMissingRank) {
  test::on_ranks_soon(
      2,
      [](ProcessGroup& group, StandIn&) {
        test::meet(group);
        if (group.rank() == 1) return;
        const auto t = on_device(0, of(6, 1.0F));
        group.all_reduce(t, ReduceOp::sum).wait();  // which is through
        const auto message = test::message_of<CommError>([&] { group.barrier(); });
        expect_in(message, "all_reduce(sum) #1 of f32[6] on sim:0 has not completed after ");
        expect_in(message, "rank 1 has not entered it");
      },
      Contract::late);
}

TEST(NcclLate, GroupsAreLaunchedInTheOrderOfTheCalls) {
  const auto nccl = std::make_shared<StandIn>();
  nccl->polls = 3;
  on_late_ranks(
      3,
      [](ProcessGroup& group, StandIn&) {
        const int me = group.rank();
        const auto second = group.split(0, me), third = group.split(0, -me);
        const std::array<ProcessGroup*, 3> groups{&group, second.get(), third.get()};
        for (int i = 0; i < 30; ++i) {
          std::array<Tensor, 3> tensors;
          for (std::size_t k = 0; k < 3; ++k) {
            const std::size_t g = (k + static_cast<std::size_t>(i)) % 3;
            tensors[g] = on_device(me, of(8, static_cast<float>(g + 1)));
            static_cast<void>(groups[g]->all_reduce(tensors[g], ReduceOp::sum));
          }
          for (ProcessGroup* each : groups) each->barrier();
          for (std::size_t g = 0; g < 3; ++g) {
            EXPECT_EQ(floats(tensors[g]), of(8, 3.0F * static_cast<float>(g + 1)));
          }
        }
        third->close();
        second->close();
      },
      nccl);
  EXPECT_EQ(nccl->launches(0).size(), 90U);
  EXPECT_EQ(nccl->launches(0), nccl->launches(1));
  EXPECT_EQ(nccl->launches(0), nccl->launches(2));
}

// More would fill the queue of its device, which then holds the host.
TEST(NcclLate, ARanksLeadIsLimited) {
  std::atomic<bool> is_there = false;
  const auto nccl = std::make_shared<StandIn>();
  on_late_ranks(
      2,
      [&](ProcessGroup& group, StandIn& here) {
        const int me = group.rank();
        const auto t = on_device(me, of(2, 0.0F));
        while (me == 1 && !is_there) std::this_thread::yield();
        for (int i = 0; i < 100; ++i) {
          static_cast<void>(group.all_reduce(t, ReduceOp::max));
          if (me == 0 && i == 99) {
            EXPECT_EQ(here.calls("ncclAllReduce"), 64);
          }
        }
        is_there = true;
        group.barrier();
        EXPECT_EQ(here.launches(me).size(), 100U);
      },
      nccl);
}

TEST(NcclLate, GroupsOfBothKindsCannotShareADevice) {
  const auto nccl = std::make_shared<StandIn>();
  run_ranks_as_threads(2, [&](ProcessGroup& control) {
    const auto first = test::nccl_group(nccl, control, patient);
    const auto message = test::message_of<Error>(
        [&] { static_cast<void>(test::nccl_group(nccl, control, test::late)); });
    expect_in(message, "Set comm.contract = \"late\" for all groups of a device");
  });
}

}  // namespace
}  // namespace lockstep
