// Functions that call on; what blocks, and for whom.
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <rpc/held.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// Back and forth between two workers, `depth` deep.
int bounce(int back, int depth) {
  if (depth == 0) return 0;
  return 1 + rpc::rpc_sync(back, bounce, rpc::this_worker().id, depth - 1);
}
/// Two calls at each level: 2^depth leaves.
int fan_out(int depth) {
  if (depth == 0) return 1;
  const int workers = static_cast<int>(rpc::all_workers().size());
  auto left = rpc::rpc_async((rpc::this_worker().id + 1) % workers, fan_out, depth - 1);
  auto right = rpc::rpc_async(rpc::this_worker().id, fan_out, depth - 1);
  return left.wait() + right.wait();
}
LOCKSTEP_RPC(bounce);
LOCKSTEP_RPC(fan_out);

TEST(Nested, CallsGoTwentyDeepWithOneWorker) {
  test::on_workers(
      [](ProcessGroup& group) {
        EXPECT_EQ(rpc::rpc_sync(test::after(group), bounce, group.rank(), 20), 20);
      },
      {.workers = 1});
}

TEST(Nested, CallsGoTwentyDeepWithoutThreads) {
  test::on_workers(
      [](ProcessGroup& group) {
        EXPECT_EQ(rpc::rpc_sync(test::after(group), bounce, group.rank(), 20), 20);
      },
      {.workers = 0});
}

TEST(Nested, CallsFanOutWithFewWorkers) {
  for (const int workers : {1, 2, 0}) {
    test::on_workers(
        [](ProcessGroup& group) {
          if (group.rank() == 0) {
            EXPECT_EQ(rpc::rpc_sync(test::after(group), fan_out, 5), 32);
          }
        },
        {.workers = workers});
  }
}

struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int waiting = 0;
};
Gate& gate() {
  static Gate one;
  return one;
}
/// Returns once so many are in it: blocks without the agent's knowing.
int meet(int many) {
  Gate& here = gate();
  std::unique_lock lock(here.mutex);
  ++here.waiting;
  here.changed.notify_all();
  here.changed.wait(lock, [&] { return here.waiting >= many; });
  return here.waiting;
}
void leave() {
  const std::lock_guard lock(gate().mutex);
  gate().waiting = 0;
}
LOCKSTEP_RPC(meet);
LOCKSTEP_RPC(leave);

// The receiver executes the first meeting itself; the others must be received all the same.
TEST(Nested, AFunctionThatBlocksDoesNotHoldUpTheAgent) {
  test::on_workers(
      [](ProcessGroup& group) {
        if (group.rank() == 0) {
          std::vector<rpc::Future<int>> meeting;
          for (int i = 0; i < 4; ++i) {
            meeting.push_back(rpc::rpc_async(test::after(group), meet, 4));
          }
          for (const auto& one : meeting) EXPECT_EQ(one.wait(), 4);
          rpc::rpc_sync(test::after(group), leave);
        }
        group.barrier();
      },
      {.workers = 4});
}

int sleeps(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
  return ms;
}
int quick() { return 1; }
int sleeps_and_meets(int ms, int many) {
  std::this_thread::sleep_for(milliseconds(ms));
  return meet(many);
}
void stays(int caller) { test::hold(caller); }
void may_go(int caller) { test::let_go(caller); }
LOCKSTEP_RPC(sleeps);
LOCKSTEP_RPC(quick);
LOCKSTEP_RPC(sleeps_and_meets);
LOCKSTEP_RPC(stays);
LOCKSTEP_RPC(may_go);

TEST(Nested, ShortCallsOvertakeLongOnes) {
  test::on_workers([](ProcessGroup& group) {
    if (group.rank() == 0) {
      auto whole = rpc::rpc_async(test::after(group), stays, group.rank());
      EXPECT_EQ(rpc::rpc_sync(test::after(group), quick), 1);
      EXPECT_FALSE(whole.test());
      rpc::rpc_sync(test::after(group), may_go, group.rank());
      whole.wait();
    }
    group.barrier();
  });
}

// That they are long is known from the first one: others are received at once from then on.
TEST(Nested, LongCallsAreExecutedSideBySide) {
  test::on_workers(
      [](ProcessGroup& group) {
        if (group.rank() == 0) {
          const int to = test::after(group);
          EXPECT_EQ(rpc::rpc_sync(to, sleeps_and_meets, 300, 1), 1);
          rpc::rpc_sync(to, leave);
          std::vector<rpc::Future<int>> three;
          for (int i = 0; i < 3; ++i) three.push_back(rpc::rpc_async(to, sleeps_and_meets, 0, 4));
          EXPECT_EQ(rpc::rpc_sync(to, quick), 1);
          for (const auto& one : three) EXPECT_FALSE(one.test());
          EXPECT_EQ(rpc::rpc_sync(to, meet, 4), 4);  // side by side with them
          for (const auto& one : three) EXPECT_EQ(one.wait(), 4);
          rpc::rpc_sync(to, leave);
        }
        group.barrier();
      },
      {.workers = 4});
}

TEST(Nested, LongCallsAreExecutedByTheOnlyWorkerToo) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int to = test::after(group);
        std::vector<rpc::Future<int>> all;
        for (int i = 0; i < 5; ++i) all.push_back(rpc::rpc_async(to, sleeps, 10));
        for (const auto& one : all) EXPECT_EQ(one.wait(), 10);
        EXPECT_EQ(rpc::rpc_sync(to, quick), 1);
      },
      {.workers = 1});
}

TEST(Nested, ShutdownWaitsForCallsThatComeFromCalls) {
  test::on_workers([](ProcessGroup& group) {
    // Not waited for, but its leaves still have to be called.
    static_cast<void>(rpc::rpc_async(test::after(group), fan_out, 4));
  });
}

std::array<std::atomic<bool>, 16> starting;  // calls, a rank
bool starts_calls() { return starting.at(static_cast<std::size_t>(rpc::this_worker().id)); }
LOCKSTEP_RPC(starts_calls);

// A caller may hold a lock that the function wants.
TEST(Nested, WithoutThreadsCallsAreExecutedInAWaitAndNotInACall) {
  test::on_workers(
      [](ProcessGroup& group) {
        std::atomic<bool>& mine = starting.at(static_cast<std::size_t>(group.rank()));
        std::vector<rpc::Future<bool>> futures;
        group.barrier();
        mine = true;
        for (int i = 0; i < 300; ++i) {
          futures.push_back(rpc::rpc_async(test::after(group), starts_calls));
        }
        mine = false;
        for (const auto& future : futures) EXPECT_FALSE(future.wait());
      },
      {.workers = 0});
}

}  // namespace
}  // namespace lockstep
