// The nccl backend with a stand-in for NCCL and the GPUs: different calls, dead peers, NCCL errors
// and operations that never end, and the release of memory and communicators after them.
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <comm/nccl/ranks.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using std::chrono::seconds;
using test::expect_in;
using test::floats;
using test::of;
using test::on_device;
using test::on_ranks;
using test::on_ranks_soon;
using test::StandIn;

TEST(NcclMismatch, IsReportedOnEveryRankBeforeAnythingReachesTheDevice) {
  on_ranks(3, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = on_device(me, of(6, 1.0F));
    const auto message = test::message_of<CommError>(
        [&] { group.all_reduce(t, me == 1 ? ReduceOp::max : ReduceOp::sum).wait(); });
    expect_in(message, "all_reduce(max) #1 of f32[6]");
    expect_in(message, "all_reduce(sum) #1 of f32[6]");
    expect_in(message, "another reduction");
    expect_in(message, "all ranks must make the same calls");
    EXPECT_EQ(gpus.calls("ncclAllReduce"), 0);
    EXPECT_EQ(floats(t), of(6, 1.0F));
    expect_in(test::message_of<CommError>([&] { group.barrier(); }), "it failed earlier");
    expect_in(test::message_of<CommError>([&] { test::meet(group); }), "it failed earlier");
  });
}

TEST(NcclMismatch, OfAHostAndADeviceTensorIsAnErrorOnEveryRank) {
  on_ranks(2, [](ProcessGroup& group, StandIn&) {
    const auto t = group.rank() == 0 ? Tensor::zeros({6}) : on_device(1, of(6, 1.0F));
    EXPECT_THROW(group.all_reduce(t, ReduceOp::sum).wait(), CommError);
    EXPECT_THROW(group.barrier(), CommError);
  });
}

TEST(NcclMismatch, OfAMessagesLengthEndsBothRanks) {
  on_ranks(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = on_device(me, of(me == 0 ? 9 : 10, 7.0F));
    const auto message = test::message_of<CommError>([&] {
      if (me == 0) group.send(t, 1);
      if (me == 1) group.recv(t, 0);
    });
    expect_in(message, "a message of 36 bytes came where 40 were expected");
    expect_in(message, me == 0 ? "send(to rank 1" : "recv(from rank 0");
    EXPECT_EQ(gpus.calls("ncclSend") + gpus.calls("ncclRecv"), 0);
  });
}

TEST(NcclMismatch, OfAnExchangesLengthsEndsEveryRank) {
  on_ranks(3, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    std::vector<std::int64_t> sent(3, 2);
    const std::vector<std::int64_t> expected(3, 2);
    if (me == 0) sent[1] = 3;
    const auto input = on_device(me, of(me == 0 ? 7 : 6, 1.0F)),
               output = on_device(me, of(6, 7.0F));
    const auto message = test::message_of<CommError>(
        [&] { group.all_to_all_v(input, output, sent, expected).wait(); });
    expect_in(message,
              me == 1 ? "rank 0 sent 3 elements where 2 were expected"
                      : "the counts that ranks send differ from the counts that others expect");
    EXPECT_EQ(floats(output), of(6, 7.0F));
    EXPECT_EQ(gpus.calls("ncclSend"), 0);
  });
}

TEST(NcclDeadline, NamesTheMissingRank) {
  on_ranks_soon(2, [](ProcessGroup& group, StandIn&) {
    test::meet(group);
    if (group.rank() == 1) return;
    const auto t = on_device(0, of(6, 1.0F));
    const auto message =
        test::message_of<CommError>([&] { group.all_reduce(t, ReduceOp::sum).wait(); });
    expect_in(message, "all_reduce(sum) #1 of f32[6] on sim:0 has not completed after ");
    expect_in(message, "rank 1 has not entered it");
    EXPECT_EQ(floats(t), of(6, 1.0F));
  });
}

// A kernel whose peer is gone never ends by itself, and neither does a read after it.
TEST(NcclDeadline, EndsTheHostsReadOfAResultThatNeverComes) {
  const auto start = Clock::now();
  on_ranks_soon(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = on_device(me, of(6, 1.0F));
    test::stop_device(group, gpus);
    group.all_reduce(t, ReduceOp::sum).wait();
    if (me == 1) return;
    EXPECT_EQ(floats(t), of(6, 1.0F));  // the read ends without the sum
    const auto message =
        test::message_of<CommError>([&] { static_cast<void>(group.all_reduce(t, ReduceOp::sum)); });
    expect_in(message, "all_reduce(sum) #1 of f32[6] on sim:0 has not completed");
    expect_in(message, "every rank has entered it, but not all make progress");
    EXPECT_GE(gpus.calls("ncclCommAbort"), 1);
  });
  EXPECT_LT(Clock::now() - start, seconds(60));
}

TEST(NcclDeadline, HoldsForAWorkWithoutAWait) {
  on_ranks_soon(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = on_device(me, of(6, 1.0F));
    test::stop_device(group, gpus);
    static_cast<void>(group.all_reduce(t, ReduceOp::sum));
    const auto start = Clock::now();
    while (gpus.calls("ncclCommAbort") < 2 && Clock::now() - start < seconds(60)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    expect_in(test::message_of<CommError>([&] { group.barrier(); }), "has not completed after");
  });
}

TEST(NcclDeadline, HoldsForMakingTheGroup) {
  const auto gpus = std::make_shared<StandIn>();
  gpus->never_settles = true;
  run_ranks_as_threads(2, [&](ProcessGroup& control) {
    const auto message = test::message_of<CommError>(
        [&] { static_cast<void>(test::nccl_group(gpus, control, {.timeout = seconds(2)})); });
    expect_in(message, "ncclCommInitRankConfig has not completed after ");
  });
  EXPECT_EQ(gpus->calls("ncclCommAbort"), 2);
}

TEST(NcclDeadline, HoldsForClose) {
  on_ranks_soon(2, [](ProcessGroup& group, StandIn& gpus) {
    test::meet(group);
    gpus.never_settles = true;
    EXPECT_THROW(group.close(), TimeoutError);
  });
}

TEST(NcclDeadline, HoldsWhereFreeingHangs) {
  const auto start = Clock::now();
  on_ranks_soon(2, [&](ProcessGroup& group, StandIn& here) {
    test::meet(group);
    here.freeing_hangs = true;
    expect_in(test::message_of<CommError>([&] { group.close(); }),
              "ncclCommDestroy has not returned");
  });
  EXPECT_LT(Clock::now() - start, seconds(60));
}

TEST(NcclFailure, ReportedByNcclEndsAWaitAndTheNextCall) {
  on_ranks(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto t = on_device(me, of(6, 1.0F));
    test::stop_device(group, gpus);
    Work work = group.all_reduce(t, ReduceOp::sum);
    if (me == 1) {
      work.wait();
      return;
    }
    work.wait();
    gpus.device_that_fails = 0;
    expect_in(test::message_of<CommError>([&] { work.synchronize(); }), "NCCL status 6");
    expect_in(
        test::message_of<CommError>([&] { static_cast<void>(group.all_reduce(t, ReduceOp::sum)); }),
        "NCCL status 6");
    EXPECT_EQ(floats(t), of(6, 1.0F));
  });
}

TEST(NcclFailure, OfACallEndsTheGroupAndLeavesNoNcclGroupOpen) {
  for (const std::string call : {"ncclGroupStart", "ncclBroadcast", "ncclGroupEnd"}) {
    SCOPED_TRACE(call);
    on_ranks(2, [&](ProcessGroup& group, StandIn& gpus) {
      const int me = group.rank();
      const auto second = group.split(0, me);
      const auto t = on_device(me, of(6, 1.0F)), u = on_device(me, of(6, 1.0F));
      gpus.refuse(call, call == "ncclGroupStart" ? -1 : me);
      const auto message = test::message_of<CommError>([&] { group.broadcast(t, 0).wait(); });
      expect_in(message, call);
      expect_in(message, "broadcast #");
      expect_in(test::message_of<CommError>([&] { group.barrier(); }), call);
      second->all_reduce(u, ReduceOp::sum).wait();
      EXPECT_EQ(floats(u), of(6, 2.0F));
      second->close();
    });
  }
}

TEST(NcclFailure, OfADeviceEndsTheGroup) {
  on_ranks_soon(2, [](ProcessGroup& group, StandIn&) {
    const int me = group.rank();
    auto& runtime = SimulatedRuntime::instance();
    const auto t = on_device(me, of(6, 1.0F));
    current_stream(test::device_of(me)).synchronize();
    test::meet(group);
    if (me == 0) runtime.inject(0, {.error_at = 2});
    const auto message =
        test::message_of<CommError>([&] { group.all_reduce(t, ReduceOp::sum).synchronize(); });
    if (me == 0) expect_in(message, "an injected error");
    if (me == 0) runtime.let_go(0);
  });
}

TEST(NcclFailure, OfASplitIsReportedByTheFailedRank) {
  on_ranks_soon(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    test::meet(group);
    if (me == 0) gpus.refuse("ncclCommSplit", 0);
    const auto message =
        test::message_of<CommError>([&] { static_cast<void>(group.split(0, me)); });
    expect_in(message, me == 0 ? "ncclCommSplit failed: NCCL status 4"
                               : "ncclCommSplit has not completed after");
  });
}

TEST(NcclLifetime, CloseWaitsForKernelsAndFreesInOrder) {
  const auto gpus = std::make_shared<StandIn>();
  on_ranks(
      2,
      [](ProcessGroup& group, StandIn&) {
        const int me = group.rank();
        for (int i = 0; i < 20; ++i) {
          static_cast<void>(group.all_reduce(on_device(me, of(100, 1.0F)), ReduceOp::sum));
        }
        group.close();
        group.close();
        EXPECT_THROW(group.barrier(), CommError);
        EXPECT_THROW(static_cast<void>(group.all_reduce(Tensor::zeros({1}), ReduceOp::sum)),
                     CommError);
      },
      test::late, gpus);
  EXPECT_EQ(gpus->calls("ncclCommFinalize"), 2);
  EXPECT_EQ(gpus->calls("ncclCommDestroy"), 2);
  EXPECT_EQ(gpus->calls("ncclCommAbort"), 0);
}

TEST(NcclLifetime, ADroppedGroupLeavesItsKernelsAndTheirMemoryAlone) {
  const auto gpus = std::make_shared<StandIn>();
  on_ranks(
      2,
      [&](ProcessGroup& group, StandIn& here) {
        const int me = group.rank();
        const auto t = on_device(me, of(100, 1.0F));
        {
          const auto second = group.split(0, me);
          auto mine = on_device(me, of(100, 1.0F));
          test::stop_device(group, here);
          second->all_reduce(t, ReduceOp::sum).wait();
          second->all_reduce(std::exchange(mine, {}), ReduceOp::sum).wait();
        }
        EXPECT_EQ(here.calls("ncclCommAbort"), 0);
        test::meet(group);
        here.stopped_device = -1;
        EXPECT_EQ(floats(t), of(100, 2.0F));
        EXPECT_TRUE(here.is_quiet_within(seconds(30)));
        group.barrier();
      },
      test::late, gpus);
}

// Other ranks may still read what the last kernel of this one has written.
TEST(NcclLifetime, ADroppedHealthyGroupIsDestroyedAndNotAborted) {
  const auto gpus = std::make_shared<StandIn>();
  on_ranks(
      2,
      [](ProcessGroup& group, StandIn&) {
        const int me = group.rank();
        const auto t = on_device(me, of(100, 1.0F));
        {
          const auto second = group.split(0, me);
          second->all_reduce(t, ReduceOp::sum).synchronize();
        }
        EXPECT_EQ(floats(t), of(100, 2.0F));
        group.close();
      },
      test::late, gpus);
  EXPECT_EQ(gpus->calls("ncclCommDestroy"), 4);
  EXPECT_EQ(gpus->calls("ncclCommFinalize"), 2);
  EXPECT_EQ(gpus->calls("ncclCommAbort"), 0);
}

// NCCL would refuse to destroy it.
TEST(NcclLifetime, ADroppedGroupWhoseCommunicatorHasFailedIsAborted) {
  const auto gpus = std::make_shared<StandIn>();
  on_ranks(
      1,
      [](ProcessGroup& group, StandIn& here) {
        const auto second = group.split(0, 0);
        group.close();
        here.device_that_fails = 0;
      },
      test::late, gpus);
  EXPECT_EQ(gpus->calls("ncclCommDestroy"), 1);
  EXPECT_EQ(gpus->calls("ncclCommAbort"), 1);
}

TEST(NcclLifetime, AFailedGroupKeepsTheMemoryOfItsKernels) {
  on_ranks_soon(2, [](ProcessGroup& group, StandIn& gpus) {
    const int me = group.rank();
    const auto bytes_in_use = [&] { return memory_stats(test::device_of(me)).in_use; };
    auto mine = on_device(me, of(100, 1.0F));
    gpus.freeing_hangs = true;  // so the kernels stay
    test::stop_device(group, gpus);
    const auto before = bytes_in_use();
    Work work = group.all_reduce(std::exchange(mine, {}), ReduceOp::sum);
    // Of this thread's look at the deadline, or of the group that the engine's look has ended.
    EXPECT_THROW(work.synchronize(), CommError);
    work = {};
    EXPECT_EQ(bytes_in_use(), before);
  });
}

}  // namespace
}  // namespace lockstep
