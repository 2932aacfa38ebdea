// How calls and workers end: shutdown at once, idleness, long mixtures.
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/base/cores.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/comm/operation.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <rpc/held.hpp>
#include <rpc/slow_to_read.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

int wait_a_while(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
  return ms;
}
int plus_one(int a) { return a + 1; }
/// Until that worker, which executes it, lets go.
void held_by_itself(int worker) { test::hold(worker); }
LOCKSTEP_RPC(wait_a_while);
LOCKSTEP_RPC(held_by_itself);
LOCKSTEP_RPC(plus_one);

TEST(Shutdown, AtOnceEndsCallsThatWait) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group);
      EXPECT_EQ(rpc::rpc_sync(test::after(*group), plus_one, 1), 2);
      const int to = test::after(*group);
      const auto waits = rpc::rpc_async(to, held_by_itself, to);
      // None is answered before the shutdown of every rank has given up its own.
      waits.then([&](const rpc::Future<void>&) {
        group->barrier();
        test::let_go(group->rank());
      });
      group->barrier();
      const auto start = Clock::now();
      const rpc::ShutdownReport report = rpc::shutdown(false);
      test::held_by(group->rank()) = false;  // where it has not even begun
      EXPECT_LT(seconds_since(start), 20);
      EXPECT_EQ(report.unanswered, 1);
      EXPECT_NE(test::thrown_by<CommError>([&] { waits.wait(); }).find("shut down"),
                std::string::npos);
      group->barrier();
      rpc::init(test::name_of_worker(group->rank()), *group);  // and again
      EXPECT_EQ(rpc::rpc_sync(test::after(*group), plus_one, 2), 3);
      rpc::shutdown();
    });
  }
}

TEST(Shutdown, AtOnceEndsThreadsThatKeepCalling) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      for (int round = 0; round < 5; ++round) {
        rpc::init(test::name_of_worker(group->rank()), *group);
        const int to = test::after(*group);
        rpc::rpc_sync(to, plus_one, 0);
        group->barrier();  // no callee has left before
        std::atomic<int> ended = 0;
        std::vector<std::thread> callers(3);
        for (std::thread& caller : callers) {
          caller = std::thread([&, agent = &rpc::current_agent()] {
            const rpc::WorksFor scope(*agent);
            const std::string said = test::thrown_by<Error>([&] {
              for (int i = 0;; ++i) rpc::rpc_sync(to, plus_one, i);
            });
            ended += said.empty() ? 0 : 1;
          });
        }
        std::this_thread::sleep_for(milliseconds(5 * (round + 1)));
        const auto start = Clock::now();
        rpc::shutdown(false);
        for (std::thread& caller : callers) caller.join();
        EXPECT_LT(seconds_since(start), 20);
        EXPECT_EQ(ended.load(), 3);
        group->barrier();
      }
    });
  }
}

// Its continuation may still run, or the thread that completes it may not have run since.
TEST(Shutdown, AtOnceCountsNoCallThatHasBeenAnswered) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group);
      std::atomic<bool> runs = false;
      rpc::rpc_async(test::after(*group), plus_one, 1).then([&](const rpc::Future<int>&) {
        runs = true;
        std::this_thread::sleep_for(milliseconds(300));
      });
      while (!runs) std::this_thread::sleep_for(milliseconds(1));
      group->barrier();
      EXPECT_EQ(rpc::shutdown(false).unanswered, 0);
      group->barrier();
    });
  }
}

int math_threads_there() { return math_threads(); }
LOCKSTEP_RPC(math_threads_there);

TEST(Threads, ThatExecuteHaveTheMathThreadsOfTheCallerOfInit) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      const int before = math_threads();
      for (const int threads : {1, 2}) {
        set_math_threads(threads);
        rpc::init(test::name_of_worker(group->rank()), *group);
        EXPECT_EQ(rpc::rpc_sync(test::after(*group), math_threads_there), threads);
        rpc::shutdown();
      }
      set_math_threads(before);
    });
  }
}

TEST(Shutdown, WaitsForWorkLongerThanTheCallTimeout) {
  test::on_workers(
      [](ProcessGroup& group) {
        const auto long_one = rpc::rpc_async(
            rpc::To(test::after(group)).within(milliseconds(20'000)), wait_a_while, 900);
        rpc::shutdown();  // the others are there at once
        EXPECT_EQ(long_one.wait(), 900);
        rpc::init(test::name_of_worker(group.rank()), group);
      },
      {.timeout = milliseconds(200)});
}

test::SlowToRead long_to_read() { return {.value = 1}; }
LOCKSTEP_RPC(long_to_read);

TEST(Shutdown, WaitsForContinuationsOfAnswersBeingRead) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    std::atomic<int> found = 0;
    rpc::rpc_async(to, long_to_read).then([&](const rpc::Future<test::SlowToRead>& f) {
      found = rpc::rpc_sync(to, plus_one, f.wait().value);
    });
    std::this_thread::sleep_for(milliseconds(100));  // a continuation is running
    rpc::shutdown();
    EXPECT_EQ(found, 2);
    rpc::init(test::name_of_worker(group.rank()), group);
  });
}

TEST(Shutdown, WithALimitNamesTheMissingRanks) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 2) continue;
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group,
                {.shutdown_timeout = milliseconds(200)});
      if (group->rank() == 0) {
        const auto start = Clock::now();
        const std::string said = test::thrown_by<TimeoutError>([] { rpc::shutdown(); });
        const double elapsed = seconds_since(start);
        EXPECT_LT(elapsed, 30);
        const double said_s = test::number_after("rpc::shutdown: after ", said);
        EXPECT_GE(said_s, 1.0) << said;
        EXPECT_LE(said_s, elapsed + 0.05) << said;  // it is rounded
        EXPECT_NE(said.find("has not entered it"), std::string::npos) << said;
      }
      group->barrier();
      rpc::shutdown(false);
    });
  }
}

/// Rank 1 is late at the last round of a shutdown without calls that asks the others for progress:
/// at the 8th sum (three times two rounds that ask and one that does not), or, if all rounds ask,
/// the 6th. Groups made from it do the same.
class LateForALastRound final : public ProcessGroup {
 public:
  explicit LateForALastRound(std::shared_ptr<ProcessGroup> inner) : inner_(std::move(inner)) {}
  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  const char* backend() const noexcept override { return inner_->backend(); }

 private:
  Work start(Operation&& operation) override {
    if (operation.kind == Operation::Kind::all_reduce) {
      ++sums_;
      if (rank() == 1 && (sums_ == 6 || sums_ == 8)) std::this_thread::sleep_for(milliseconds(250));
    }
    return start_on(*inner_, std::move(operation));
  }
  std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int> members) override {
    return std::make_shared<LateForALastRound>(make_subgroup_of(*inner_, members));
  }
  void enable_wakeup(std::chrono::microseconds awake, bool by_datagrams) override {
    MessagePort(*inner_).enable_wakeup(awake, by_datagrams);
  }
  void release() override { inner_->close(); }

  std::shared_ptr<ProcessGroup> inner_;
  int sums_ = 0;
};

// Rank 0 asks twice before rank 1 is there, which receives one message and then the sum. Sends of
// threads complete when they are received; the end of the group waits for that.
TEST(Shutdown, ReceivesTheQuestionsOfItsLastRounds) {
  for (const int ranks : test::rank_counts()) {
    if (ranks != 2) continue;
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      LateForALastRound late(group);
      rpc::init(test::name_of_worker(group->rank()), late,
                {.shutdown_timeout = milliseconds(400), .workers = 0});
      const auto start = Clock::now();
      EXPECT_EQ(test::thrown_by<Error>([] { rpc::shutdown(); }), "");
      EXPECT_LT(seconds_since(start), 30) << "the group's deadline is 60 s";
      group->barrier();
    });
  }
}

void shut_down_from_within() { rpc::shutdown(); }
LOCKSTEP_RPC(shut_down_from_within);

TEST(Shutdown, IsRefusedWithinAnExecutedFunction) {
  test::on_workers([](ProcessGroup& group) {
    const std::string said = test::thrown_by<rpc::RemoteError>(
        [&] { rpc::rpc_sync(test::after(group), shut_down_from_within); });
    EXPECT_NE(said.find("called inside a function that runs"), std::string::npos) << said;
  });
}

double processor_seconds(clockid_t clock = CLOCK_PROCESS_CPUTIME_ID) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// In this time a thread wakes each millisecond and does nothing else: a measure of the machine.
void wake_each_millisecond(milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double next_to_nothing = 8;  // polls cost more there
#else
constexpr double next_to_nothing = 2;
#endif

// All threads of an idle worker together use less processor time than two threads that wake each
// millisecond: on Zen 4 they use 0.6 to 1 of one such thread, 1.5 if the receiver polls each
// millisecond, and 40 if it does not sleep. A limit in seconds would depend on the machine and on
// MPI: an idle worker used 1.3 % of a core there, and 2.4 % on a slower machine with Open MPI.
TEST(Idle, WorkersCostNextToNothing) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      const int ranks_here = test::rank_counts().size() > 1 ? ranks : 1;
      rpc::init(test::name_of_worker(group->rank()), *group);
      rpc::rpc_sync(test::after(*group), plus_one, 1);
      double least = 1e9;
      for (int i = 0; i < 10; ++i) {  // on a busy machine a single figure proves nothing
        group->barrier();
        const double before = processor_seconds();
        const double before_here = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
        wake_each_millisecond(milliseconds(500));
        const double here = processor_seconds(CLOCK_THREAD_CPUTIME_ID) - before_here;
        const double worker = (processor_seconds() - before) / ranks_here - here;
        least = std::min(least, worker / here);
        if (all_reduce_scalar(*group, least, ReduceOp::max) < next_to_nothing) break;
      }
      EXPECT_LT(least, next_to_nothing);
      rpc::shutdown();
    });
  }
}

// Not under sanitizers: there a call by itself takes 0.4 ms and more on a slow processor.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
int answers_in_a_millisecond() {
  std::this_thread::sleep_for(milliseconds(1));
  return 1;
}
LOCKSTEP_RPC(answers_in_a_millisecond);

/// While it lives, the calling thread, and those that it starts, may run on one core only.
class OnOneCore {
 public:
  OnOneCore() {
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(allowed_cores().front(), &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  ~OnOneCore() { sched_setaffinity(0, sizeof(before_), &before_); }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  cpu_set_t before_{};
};

double processor_seconds_there() { return processor_seconds(); }
LOCKSTEP_RPC(processor_seconds_there);

/// Of a core, by ranks 0 and 1 together, while 0 calls 1 again and again.
double share_of_a_core_while_calling() {
  constexpr int calls = 200;
  const bool one_process = test::rank_counts().size() > 1;
  const auto used = [&] {
    const double there = rpc::rpc_sync(1, processor_seconds_there);
    return one_process ? there : there + processor_seconds();
  };
  const double before = used();
  for (int call = 0; call < calls; ++call) rpc::rpc_sync(1, answers_in_a_millisecond);
  return (used() - before) / (1e-3 * calls);
}

// A polling wait would take the core from the worker that computes.
TEST(Idle, AWaitSleepsIfWorkersOutnumberCores) {
  for (const int ranks : test::rank_counts()) {
    if (ranks == 1) continue;
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      const OnOneCore one_core;
      rpc::init(test::name_of_worker(group->rank()), *group);
      if (group->rank() == 0) {
        constexpr double asleep = 0.3;  // 0.4 and more where both stay awake for 0.2 ms
        double least = 1e9;
        for (int i = 0; i < 10 && least > asleep; ++i) {
          least = std::min(least, share_of_a_core_while_calling());
        }
        EXPECT_LT(least, asleep);
      }
      rpc::shutdown();
    });
  }
}

#endif

// A rank that only serves waits there from the beginning on.
TEST(Shutdown, AWaitForTheOthersSleeps) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group);
      group->barrier();
      if (group->rank() == 0) std::this_thread::sleep_for(milliseconds(1500));
      const double before = processor_seconds(CLOCK_THREAD_CPUTIME_ID);
      rpc::shutdown();
      EXPECT_LT(processor_seconds(CLOCK_THREAD_CPUTIME_ID) - before, 0.3);
    });
  }
}

}  // namespace
}  // namespace lockstep
