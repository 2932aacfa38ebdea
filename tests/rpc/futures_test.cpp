// What can be done with the future of a call; errors and deadlines.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>

#include <comm/no_thread_starts.hpp>
#include <lockstep/rpc/agent.hpp>
#include <rpc/held.hpp>
#include <rpc/slow_to_read.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::Future;
using rpc::Promise;
using std::chrono::milliseconds;
using test::hold;
using test::let_go;

int add_one(int a) { return a + 1; }
int throws_it(const std::string& text) { throw std::runtime_error(text); }
void throws_something_else() { throw 17; }  // NOLINT: what others may do
int slow(int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
  return ms;
}
test::SlowToRead seven() { return {.value = 7}; }
/// More than any machine has memory for.
Tensor too_much() {
  static std::byte first{};
  constexpr std::size_t bytes = std::size_t{1} << 50U;
  return Tensor::over(Storage::borrow(&first, bytes, Device{}), 0, {std::int64_t{bytes}},
                      DType::u8);
}
LOCKSTEP_RPC(too_much);
LOCKSTEP_RPC(hold);
LOCKSTEP_RPC(let_go);
LOCKSTEP_RPC(seven);
LOCKSTEP_RPC(add_one);
LOCKSTEP_RPC(throws_it);
LOCKSTEP_RPC(throws_something_else);
LOCKSTEP_RPC(slow);

TEST(Futures, ThenRunsOnTheValue) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    auto doubled = rpc::rpc_async(test::after(group), add_one, 20).then([](const Future<int>& f) {
      return 2 * f.wait();
    });
    auto text = doubled.then([](const Future<int>& f) { return std::to_string(f.wait()); });
    EXPECT_EQ(text.wait(), "42");
    EXPECT_EQ(doubled.wait(), 42);
    bool ran = false;
    doubled.then([&](const Future<int>&) { ran = true; }).wait();  // complete already: at once
    EXPECT_TRUE(ran);
  });
}

TEST(Futures, ThenRunsWithoutAWait) {
  test::on_workers([](ProcessGroup& group) {
    std::atomic<int> seen = 0;
    rpc::rpc_async(test::after(group), add_one, 1).then([&](const Future<int>& f) {
      seen = f.wait();
    });
    while (seen == 0) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(seen, 2);
  });
}

TEST(Futures, ThenMayCallAgain) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    auto f = rpc::rpc_async(to, add_one, 1).then([to](const Future<int>& first) {
      return rpc::rpc_sync(to, add_one, first.wait());
    });
    EXPECT_EQ(f.wait(), 3);
  });
}

TEST(Futures, ThenPassesErrorsOn) {
  test::on_workers([](ProcessGroup& group) {
    auto f =
        rpc::rpc_async(test::after(group), throws_it, "broken").then([](const Future<int>& first) {
          return first.wait();
        });
    EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] { f.wait(); }).find("broken"),
              std::string::npos);
    auto g = rpc::rpc_async(test::after(group), add_one, 1).then([](const Future<int>&) -> int {
      throw std::runtime_error("in the continuation");
    });
    EXPECT_EQ(test::thrown_by<std::runtime_error>([&] { g.wait(); }), "in the continuation");
  });
}

TEST(Futures, OfThenEndIfNoThreadCanBeStartedForAnswers) {
  test::on_workers([](ProcessGroup& group) {
    if (group.rank() == 0) {
      const auto in_time = [](const Future<void>& call) {
        const test::NoThreadStarts none;
        return call.then([](const Future<void>& f) {
          return test::thrown_by<TimeoutError>([&] { f.wait(); }).empty();
        });
      };
      const int to = test::after(group);
      constexpr std::chrono::seconds patience{20};
      const auto answered = in_time(rpc::rpc_async(to, hold, 0));
      rpc::rpc_sync(to, let_go, 0);
      EXPECT_TRUE(answered.wait_for(patience) && answered.wait());
      const auto overdue = in_time(rpc::rpc_async(rpc::To(to).within(milliseconds(50)), hold, 0));
      EXPECT_TRUE(overdue.wait_for(patience) && !overdue.wait());
      rpc::rpc_sync(to, let_go, 0);
    }
    group.barrier();
  });
}

// Not under sanitizers, whose allocators refuse to return null. The tensor is never received, which
// the end of an MPI group would wait for.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(Futures, ThenMayCallAgainAfterAnAnswerThatDoesNotFitInMemory) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      if (group->size() < 2 || std::string(group->backend()) != "threads") return;
      rpc::init(test::name_of_worker(group->rank()), *group,
                {.max_tensor_bytes = std::int64_t{1} << 51});
      if (group->rank() == 0) {
        const auto second = rpc::rpc_async(1, too_much).then([](const Future<Tensor>& first) {
          EXPECT_NE(test::thrown_by<Error>([&] { first.wait(); }), "");
          return rpc::rpc_sync(rpc::To(1).within(std::chrono::seconds(20)), add_one, 1);
        });
        EXPECT_EQ(test::thrown_by<Error>([&] { EXPECT_EQ(second.wait(), 2); }), "");
      }
      group->barrier();
      rpc::shutdown(false);
      group->barrier();
    });
  }
}
#endif

TEST(Futures, OfPromisesAreCompletedOnce) {
  const Promise<std::string> promise;
  const auto future = promise.future();
  EXPECT_FALSE(future.test());
  std::thread setter([&] { promise.set_value("here"); });
  EXPECT_EQ(future.wait(), "here");
  setter.join();
  EXPECT_THROW(promise.set_value("again"), Error);
  EXPECT_EQ(future.wait(), "here");
}

TEST(Errors, OfTheCalleeArriveWithPlaceNameAndText) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    try {
      rpc::rpc_sync(to, throws_it, "the disk is full");
      ADD_FAILURE() << "nothing was thrown";
    } catch (const rpc::RemoteError& error) {
      EXPECT_EQ(error.rank(), to);
      EXPECT_EQ(error.worker(), test::name_of_worker(to));
      EXPECT_EQ(error.function(), "throws_it");
      EXPECT_EQ(error.text(), "the disk is full");
      EXPECT_EQ(std::string(error.what()), "throws_it on worker " + test::name_of_worker(to) +
                                               " (rank " + std::to_string(to) +
                                               "): the disk is full");
    }
    EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] {
                rpc::rpc_sync(to, throws_something_else);
              }).find("unknown type"),
              std::string::npos);
    EXPECT_EQ(rpc::rpc_sync(to, add_one, 1), 2);
  });
}

TEST(Deadlines, EndACallAndLeaveTheCallerUsable) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    const auto start = Clock::now();
    const std::string said = test::thrown_by<TimeoutError>(
        [&] { rpc::rpc_sync(rpc::To(to).within(milliseconds(100)), hold, group.rank()); });
    const double elapsed = seconds_since(start);
    EXPECT_GE(elapsed, 0.1);
    EXPECT_NE(said.find("hold on worker " + test::name_of_worker(to)), std::string::npos) << said;
    const double said_s = test::number_after("has not been answered after ", said);
    EXPECT_GE(said_s, 0.1) << said;
    EXPECT_LE(said_s, elapsed + 0.05) << said;  // it is rounded
    EXPECT_EQ(rpc::rpc_sync(to, add_one, 1), 2);
    // The late answer arrives without a call that waits for it.
    rpc::rpc_sync(to, let_go, group.rank());
    for (int i = 0; i < 20; ++i) EXPECT_EQ(rpc::rpc_sync(to, add_one, i), i + 1);
  });
}

TEST(Deadlines, OfTheLongestDurationHaveNotPassedAtOnce) {
  constexpr auto never = milliseconds::max();
  const auto slept = [](ProcessGroup& group) {
    const int to = test::after(group);
    EXPECT_EQ(rpc::rpc_sync(to, slow, 20), 20);
    EXPECT_EQ(rpc::rpc_sync(rpc::To(to).within(never), slow, 20), 20);
    Promise<int> promise;
    const Future<int> kept = promise.future();
    std::thread keeper([&] {
      std::this_thread::sleep_for(milliseconds(20));
      promise.set_value(3);
    });
    EXPECT_TRUE(kept.wait_for(std::chrono::hours::max()));
    EXPECT_EQ(test::thrown_by<Error>([&] { EXPECT_EQ(kept.wait(), 3); }), "");
    keeper.join();
  };
  test::on_workers(slept, {.timeout = never, .shutdown_timeout = never});
}

TEST(Deadlines, AreKeptWithoutAWait) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    std::atomic<bool> timed_out = false;
    rpc::rpc_async(rpc::To(to).within(milliseconds(50)), hold, group.rank())
        .then([&](const Future<void>& f) {
          timed_out = !test::thrown_by<TimeoutError>([&] { f.wait(); }).empty();
        });
    const auto start = Clock::now();
    while (!timed_out && seconds_since(start) < 30) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(timed_out);
    rpc::rpc_sync(to, let_go, group.rank());
  });
}

TEST(Deadlines, ThatPassWhileTheAnswerIsReadKeepItsValue) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    // Receives all answers of this rank, and reads them.
    auto long_call = rpc::rpc_async(to, hold, group.rank());
    std::thread reader([&, agent = &rpc::current_agent()] {
      const rpc::WorksFor worker(*agent);
      long_call.wait();
    });
    std::this_thread::sleep_for(milliseconds(50));
    try {
      EXPECT_EQ(rpc::rpc_sync(rpc::To(to).within(milliseconds(200)), seven).value, 7);
    } catch (const TimeoutError&) {  // on a busy machine
    }
    rpc::rpc_sync(to, let_go, group.rank());
    reader.join();
  });
}

TEST(Deadlines, AreErrorsThatContinuationsMayHandle) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    const bool threads = rpc::Agent::current().has_threads();
    // Without threads a held call would hold its callee.
    auto late = rpc::rpc_async(rpc::To(to).within(milliseconds(50)), slow, threads ? 400 : 100);
    const int handled = late.then([](const Future<int>& f) {
                              const bool timed_out =
                                  !test::thrown_by<TimeoutError>([&] { f.wait(); }).empty();
                              return timed_out ? -1 : f.wait();
                            })
                            .wait();
    EXPECT_TRUE(handled == -1 || handled == (threads ? 400 : 100)) << handled;
    if (!threads) return;  // a sleeping worker serves no calls
    std::atomic<bool> in_time = false;
    const auto follows = rpc::rpc_async(rpc::To(to).within(milliseconds(1000)), add_one, 1)
                             .then([&](const Future<int>& f) {
                               in_time = f.wait() == 2;
                               std::this_thread::sleep_for(milliseconds(1200));
                               return f.wait() + 1;
                             });
    try {
      EXPECT_EQ(follows.wait(), 3);
    } catch (const TimeoutError& error) {  // of the call, on a busy machine
      EXPECT_FALSE(in_time) << error.what();
    }
  });
}

TEST(Deadlines, AreKeptWhileARankWithoutThreadsServes) {
  test::on_workers(
      [](ProcessGroup& group) {
        if (group.size() > 1) {
          bool timed_out = false;
          if (group.rank() == 0) {
            rpc::rpc_async(rpc::To(1).within(milliseconds(50)), add_one, 1)
                .then([&](const Future<int>& f) {
                  timed_out = !test::thrown_by<TimeoutError>([&] { f.wait(); }).empty();
                });
            const auto start = Clock::now();
            rpc::serve_until([&] { return timed_out || seconds_since(start) > 30; });
            EXPECT_TRUE(timed_out) << "rank 1 serves nobody, and the call was not ended";
          }
          group.barrier();
        }
      },
      {.workers = 0});
}

TEST(Deadlines, MayBeLongerThanAWait) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const auto start = Clock::now();
    auto future = rpc::rpc_async(test::after(group), slow, 150);
    if (rpc::Agent::current().has_threads()) {
      const bool came = future.wait_for(milliseconds(10));
      EXPECT_TRUE(!came || seconds_since(start) >= 0.15) << "it was there before it could be";
    }
    EXPECT_EQ(future.wait(), 150);
  });
}

}  // namespace
}  // namespace lockstep
