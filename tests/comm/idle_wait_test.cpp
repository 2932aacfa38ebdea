// Waiting without a deadline costs next to nothing, and ends soon after a message was sent. A wait
// leaves a core to those who compute on it.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/cores.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/comm/mpi_group.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/threads_group.hpp>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Of a core, by the whole process. Rank 0 waits, the others do not even do that.
double share_of_a_core(ProcessGroup& group, milliseconds time) {
  double share = 0.0;
  if (group.rank() == 0) {
    auto message = MessagePort(group).irecv(any_source);
    const double before = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    EXPECT_FALSE(message.wait_for(time));
    const double used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - before;
    share = used / std::chrono::duration<double>(time).count();
    message.cancel();
    message.wait();
    EXPECT_TRUE(message.cancelled());
  } else {
    std::this_thread::sleep_for(time);
  }
  group.barrier();
  return share;
}

/// From a message's start on rank 1 to the end of the wait of rank 0, which has long slept; the
/// median of some. The ranks have one clock.
double seconds_to_wake(ProcessGroup& group) {
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    if (group.rank() == 0) {
      auto message = MessagePort(group).irecv(1);
      while (!message.wait_for(std::chrono::seconds(1))) {
      }
      double sent = 0.0;
      std::memcpy(&sent, message.message().data(), sizeof sent);
      times.push_back(seconds_of(CLOCK_MONOTONIC) - sent);
    } else if (group.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      const double now = seconds_of(CLOCK_MONOTONIC);
      std::vector<std::uint8_t> bytes(sizeof now);
      std::memcpy(bytes.data(), &now, sizeof now);
      group.send(Tensor::from(bytes), 0);
    }
  }
  group.barrier();
  if (times.empty()) return 0.0;
  std::ranges::nth_element(times, times.begin() + 7);
  return times[7];
}

/// Whether one figure of some is below `bound`, on every rank: on a busy machine a single one
/// proves nothing.
template <class F>
bool once_below(ProcessGroup& group, double bound, const F& figure) {
  double least = 1e9;
  for (int i = 0; i < 60; ++i) {
    least = std::min(least, figure());
    if (all_reduce_scalar(group, least, ReduceOp::max) < bound) return true;
  }
  ADD_FAILURE() << "at best " << least << ", not below " << bound;
  return false;
}

/// Of a core, and seconds. Sanitizers make each poll up to several times as expensive: the limits
/// are for ordinary builds, and here the test only excludes running or sleeping all the time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double little = 0.2, prompt = 700e-6;
#else
constexpr double little = 0.02, prompt = 200e-6;
#endif

/// A datagram arrives, a thread rings: two are woken, one after the other.
constexpr double prompt_over_nodes = 2 * prompt;

/// A datagram may be lost: a rank looks every 2 ms, at 20 to 40 us a look on virtual machines.
constexpr double little_over_nodes = 2.5 * little;

void expect_cheap_and_prompt(ProcessGroup& group, double cheap = little, double soon = prompt) {
  EXPECT_TRUE(once_below(group, cheap, [&] { return share_of_a_core(group, milliseconds(200)); }));
  // Unless it is woken, it looks every 2.5 ms by then.
  EXPECT_TRUE(once_below(group, soon, [&] { return seconds_to_wake(group); }));
}

TEST(IdleWait, CostsLittleAndIsWokenByAMessage) {
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  expect_cheap_and_prompt(*group);
  group->close();
}

std::shared_ptr<ProcessGroup> group_over_nodes(bool by_datagrams) {
  auto group = make_mpi_group(MPI_COMM_WORLD, {.pretended_nodes = {1, 1}});
  MessagePort(*group).enable_wakeup(milliseconds(1), by_datagrams);
  return group;
}

TEST(IdleWait, CostsLittleAndIsWokenByAMessageOfAnotherNode) {
  const auto group = group_over_nodes(true);
  expect_cheap_and_prompt(*group, little_over_nodes, prompt_over_nodes);
  group->close();
}

TEST(IdleWait, WithoutDatagramsCostsLittleAndFindsAMessageOfAnotherNodeAtTheNextLook) {
  const auto group = group_over_nodes(false);
  EXPECT_TRUE(once_below(*group, little_over_nodes,
                         [&] { return share_of_a_core(*group, milliseconds(200)); }));
  const double seconds = all_reduce_scalar(*group, seconds_to_wake(*group), ReduceOp::max);
  EXPECT_GT(seconds, 250e-6);
  EXPECT_LT(seconds, 1.0);
  group->close();
}

TEST(IdleWait, CostsLittleAndIsWokenByAMessageBetweenThreads) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    run_ranks_as_threads(2, [](ProcessGroup& threads) { expect_cheap_and_prompt(threads); });
  MPI_Barrier(MPI_COMM_WORLD);
}

/// The processor time that rank 0 takes to wait for rank 1, as a share of what that computes
/// meanwhile, for 4 ms each time: less than a wait stays awake on a core of its own.
double share_of_a_wait_beside(ProcessGroup& group) {
  constexpr int times = 25;
  constexpr double work_s = 4e-3;
  double waited = 0.0;
  for (int i = 0; i < times; ++i) {
    const double before = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    while (group.rank() == 1 && seconds_of(CLOCK_THREAD_CPUTIME_ID) - before < work_s) {
    }
    group.barrier();
    if (group.rank() == 0) waited += seconds_of(CLOCK_THREAD_CPUTIME_ID) - before;
  }
  return waited / (times * work_s);
}

TEST(IdleWait, LeavesTheCoreToARankThatComputesThere) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(allowed_cores().front()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const auto group = make_mpi_group(MPI_COMM_WORLD);
  EXPECT_TRUE(once_below(*group, 0.5, [&] { return share_of_a_wait_beside(*group); }));
  group->close();
  EXPECT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
}

}  // namespace
}  // namespace lockstep
