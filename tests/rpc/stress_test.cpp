// Many calls, long chains, deep nests, and answers that are hard to give.
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <rpc/held.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::Future;
using rpc::Promise;
using std::chrono::milliseconds;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

/// Says nothing.
struct Silent : std::exception {
  const char* what() const noexcept override { return nullptr; }
};
int throws_silently() { throw Silent(); }
Future<int> fails_silently() {
  const Promise<int> promise;
  promise.set_exception(std::make_exception_ptr(Silent()));
  return promise.future();
}
int throws_much(int bytes) {
  throw std::runtime_error(std::string(static_cast<std::size_t>(bytes), 'x'));
}
std::string returns_much(int bytes) { return std::string(static_cast<std::size_t>(bytes), 'x'); }
int next_of(int a) { return a + 1; }
int deep(int back, int depth) {
  return depth <= 1 ? 1 : 1 + rpc::rpc_sync(back, deep, rpc::this_worker().id, depth - 1);
}
LOCKSTEP_RPC(throws_silently);
LOCKSTEP_RPC(fails_silently);
LOCKSTEP_RPC(throws_much);
LOCKSTEP_RPC(returns_much);
LOCKSTEP_RPC(next_of);
LOCKSTEP_RPC(deep);

/// Promises that are not completed while the workers live.
struct Kept {
  std::mutex mutex;
  std::vector<Promise<int>> promises;
  Future<int> add() {
    const std::lock_guard lock(mutex);
    return promises.emplace_back().future();
  }
  void complete_all() {
    const std::lock_guard lock(mutex);
    for (const Promise<int>& promise : promises) promise.set_value(1);
    promises.clear();
  }
};
Kept kept[16];  // one a rank: ranks may be threads
Future<int> waits_for_a_batch() { return kept[rpc::this_worker().id].add(); }
int asks_and_waits(int other) { return rpc::rpc_sync(other, waits_for_a_batch); }
LOCKSTEP_RPC(waits_for_a_batch);
LOCKSTEP_RPC(asks_and_waits);

// A batching server whose batch is never full, as a trainer has left.
TEST(ServedFutures, EndAtTheirCallersDeadlineAndShutdownCompletes) {
  for (const int workers : {2, 0}) {
    for (const int ranks : test::rank_counts()) {
      test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
        rpc::init(test::name_of_worker(group->rank()), *group, {.workers = workers});
        const int to = test::after(*group);
        const auto soon = rpc::To(to).within(milliseconds(100));
        const auto call = rpc::rpc_async(soon, waits_for_a_batch);
        const auto object = rpc::remote(soon, waits_for_a_batch);
        EXPECT_NE(test::thrown_by<TimeoutError>([&] { call.wait(); }), "");
        EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] {
                    static_cast<void>(object.to_here());
                  }).find("had no value at the deadline"),
                  std::string::npos);
        const auto start = Clock::now();
        rpc::shutdown();
        EXPECT_LT(seconds_since(start), 30);
        kept[group->rank()].complete_all();  // the futures have no owner any more
        group->barrier();
      });
    }
  }
}

TEST(Deadlines, HoldForCallsThatACallMakes) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    const auto start = Clock::now();
    // Both calls end then: which end is heard of first is chance.
    EXPECT_NE(test::thrown_by<Error>([&] {
                rpc::rpc_sync(rpc::To(to).within(milliseconds(100)), asks_and_waits, group.rank());
              }).find("has not been answered after"),
              std::string::npos);
    group.barrier();
    rpc::shutdown();  // the call within it, whose own timeout is a minute, is over as well
    EXPECT_LT(seconds_since(start), 30);
    kept[group.rank()].complete_all();
    rpc::init(test::name_of_worker(group.rank()), group);
  });
}

/// The last rank works with rank 0 for longer than `limit`, all others wait. True if no rank gave
/// up.
bool waits_for_who_works(ProcessGroup& group, milliseconds limit) {
  const double works = 2.5e-3 * static_cast<double>(limit.count());
  rpc::init(test::name_of_worker(group.rank()), group, {.shutdown_timeout = limit});
  group.barrier();
  const auto start = Clock::now();
  const bool all_there =
      test::thrown_by<Error>([&] {
        while (group.rank() == group.size() - 1 && seconds_since(start) < works) {
          EXPECT_EQ(rpc::rpc_sync(rpc::To(0).within(limit), next_of, 1), 2);
          std::this_thread::sleep_for(milliseconds(20));
        }
        rpc::shutdown();
        EXPECT_GE(seconds_since(start), works - 0.1);
      }).empty();
  if (!all_there) rpc::shutdown(false);
  return all_reduce_scalar(group, all_there ? 1.0 : 0.0, ReduceOp::min) == 1.0;
}

TEST(Shutdown, CountsItsTimeFromTheEndOfAllWork) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 2) continue;
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      EXPECT_TRUE(waits_for_who_works(*group, milliseconds(1000)) ||
                  waits_for_who_works(*group, milliseconds(6000)));  // the machine was busy
    });
  }
}

void held_without_end(int worker) { test::hold(worker); }
LOCKSTEP_RPC(held_without_end);

TEST(Shutdown, WithALimitEndsEvenIfAFunctionDoesNotReturn) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group,
                {.shutdown_timeout = milliseconds(300)});
      const int to = test::after(*group);
      EXPECT_THROW(rpc::rpc_sync(rpc::To(to).within(milliseconds(50)), held_without_end, to),
                   TimeoutError);
      const auto start = Clock::now();
      EXPECT_NE(test::thrown_by<TimeoutError>([] { rpc::shutdown(); }), "");
      EXPECT_LT(seconds_since(start), 30);
      test::let_go(group->rank());
      group->barrier();
      rpc::shutdown(false);
      group->barrier();
    });
  }
}

TEST(Errors, WithoutAMessageAreAnsweredAtOnce) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    const auto expect_said = [](const std::string& said) {
      EXPECT_NE(said.find("an exception without a text was thrown"), std::string::npos) << said;
    };
    expect_said(test::thrown_by<rpc::RemoteError>([&] { rpc::rpc_sync(to, throws_silently); }));
    expect_said(test::thrown_by<rpc::RemoteError>([&] { rpc::rpc_sync(to, fails_silently); }));
    const auto object = rpc::remote(to, throws_silently);
    expect_said(test::thrown_by<rpc::RemoteError>([&] { static_cast<void>(object.to_here()); }));
  });
}

TEST(Errors, AreShortenedToTheMessageSize) {
  test::on_workers(
      [](ProcessGroup& group) {
        const int to = test::after(group);
        const std::string said =
            test::thrown_by<rpc::RemoteError>([&] { rpc::rpc_sync(to, throws_much, 100'000); });
        EXPECT_NE(said.find(" bytes are left out) ... xxx"), std::string::npos) << said;
        EXPECT_GT(said.size(), 3000U);
        const std::string large =
            test::thrown_by<rpc::RemoteError>([&] { rpc::rpc_sync(to, returns_much, 100'000); });
        EXPECT_NE(large.find("max_message_bytes"), std::string::npos) << large;
      },
      {.max_message_bytes = 4096});
}

TEST(Futures, ChainsOfThenMayBeLong) {
  constexpr int links = 100'000;
  for (const bool fails : {false, true}) {
    const Promise<int> promise;
    Future<int> last = promise.future();
    for (int i = 0; i < links; ++i) {
      last = last.then([](const Future<int>& f) { return f.wait() + 1; });
    }
    if (fails) {
      promise.set_exception(std::make_exception_ptr(std::runtime_error("at the first link")));
      EXPECT_EQ(test::thrown_by<std::runtime_error>([&] { last.wait(); }), "at the first link");
    } else {
      promise.set_value(0);
      EXPECT_EQ(last.wait(), links);
    }
  }
}

TEST(Futures, RunContinuationsInTheOrderOfThen) {
  const Promise<void> promise;
  const Future<void> first = promise.future();
  std::string order;
  const auto note = [&](char c) { return [&order, c](const Future<void>&) { order += c; }; };
  const Future<void> second = first.then(note('a'));
  first.then(note('d'));
  second.then(note('b')).then(note('c'));
  promise.set_value();
  EXPECT_EQ(order, "abcd");
}

TEST(Futures, WaitAllGivesAllValuesOrTheFirstFailure) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    std::vector<Future<int>> futures;
    for (int i = 0; i < 10; ++i) futures.push_back(rpc::rpc_async(to, next_of, i));
    EXPECT_EQ(rpc::wait_all(futures), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
    futures.push_back(rpc::rpc_async(to, throws_much, 3));
    EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] { rpc::wait_all(futures); }), "");
    rpc::wait_all(std::vector<Future<void>>{});
  });
}

TEST(Futures, ThatAreEmptyAreRefused) {
  const Future<int> nothing;
  EXPECT_THROW(nothing.wait(), Error);
  EXPECT_THROW(static_cast<void>(nothing.test()), Error);
  EXPECT_THROW(nothing.then([](const Future<int>&) {}), Error);
  EXPECT_THROW(Promise<int>().set_exception(nullptr), InputError);
}

TEST(Stress, ManyCallsMayBeInFlight) {
  static constexpr int calls = is_sanitized ? 5'000 : 60'000;
  test::on_workers(
      [](ProcessGroup& group) {
        if (group.rank() == 0) {
          const int to = test::after(group);
          std::vector<Future<int>> futures;
          futures.reserve(calls);
          for (int i = 0; i < calls; ++i) futures.push_back(rpc::rpc_async(to, next_of, i));
          int wrong = 0;
          for (int i = 0; i < calls; ++i) {
            wrong += futures[static_cast<std::size_t>(i)].wait() == i + 1 ? 0 : 1;
          }
          EXPECT_EQ(wrong, 0);
        }
        group.barrier();
      },
      {.timeout = std::chrono::minutes(3)});
}

// Each answer is followed by the next call, whose making receives answers.
TEST(Stress, ChainedCallsKeepTheStackFlat) {
  static constexpr int loops = 200, steps = 25;
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    std::atomic<int> over = 0;
    std::function<void(int)> step = [&](int left) {
      rpc::rpc_async(to, next_of, left).then([&, left](const Future<int>& f) {
        EXPECT_EQ(f.wait(), left + 1);
        if (left == 0) {
          ++over;
        } else {
          step(left - 1);
        }
      });
    };
    for (int i = 0; i < loops; ++i) step(steps);
    const auto start = Clock::now();
    while (over < loops && seconds_since(start) < 60) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_EQ(over, loops);
    group.barrier();
  });
}

TEST(Stress, CallsMayBeNestedDeeply) {
  static constexpr int depth = is_sanitized ? 50 : 300;
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    if (group.rank() == 0) {
      const auto there = rpc::To(test::after(group)).within(std::chrono::minutes(3));
      EXPECT_EQ(rpc::rpc_sync(there, deep, 0, depth), depth);
    }
  });
}

TEST(Stress, CallsThatAreNestedTooDeeplyAreRefusedAtOnce) {
  for (const int workers : {2, 0}) {
    test::on_workers(
        [](ProcessGroup& group) {
          if (group.rank() == 0) {
            const int to = test::after(group);
            EXPECT_EQ(rpc::rpc_sync(to, deep, 0, 20), 20);
            const auto start = Clock::now();
            const std::string said =
                test::thrown_by<rpc::RemoteError>([&] { rpc::rpc_sync(to, deep, 0, 21); });
            EXPECT_NE(said.find("20 nested calls wait for each other"), std::string::npos) << said;
            EXPECT_LT(seconds_since(start), 20);
          }
        },
        {.max_depth = 20, .workers = workers});
  }
}

}  // namespace
}  // namespace lockstep
