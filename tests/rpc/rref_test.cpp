// References to remote objects: the guarantees of lockstep/rpc/references.hpp, with messages that
// overtake each other.
#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include <lockstep/rpc/agent.hpp>
#include <rpc/held.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::RRef;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Counts those of its kind that are alive, of all ranks of this process.
struct Counter {
  static inline std::atomic<int> alive = 0;
  explicit Counter(int start = 0) : count(start) { ++alive; }
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;
  ~Counter() { --alive; }

  int add(int n) {
    const std::lock_guard lock(mutex);
    return count += n;
  }
  int value() const { return count; }
  int worker() const { return rpc::this_worker().id; }

  mutable std::mutex mutex;
  int count;
};
std::unique_ptr<Counter> make_counter(int start) { return std::make_unique<Counter>(start); }
int use_counter(const RRef<Counter>& counter, int n) { return counter.rpc_sync(&Counter::add, n); }
/// Passes it on `hops` times before it is used.
int pass_on(const RRef<Counter>& counter, int hops) {
  if (hops == 0) return counter.rpc_sync(&Counter::add, 1);
  const int workers = static_cast<int>(rpc::all_workers().size());
  return rpc::rpc_sync((rpc::this_worker().id + 1) % workers, pass_on, counter, hops - 1);
}
/// When the messages that manage it have had time to come, in the wrong order too.
int use_later(const RRef<Counter>& counter) {
  std::this_thread::sleep_for(milliseconds(8));
  return counter.call_within(std::chrono::seconds(30), &Counter::add, 1).wait();
}
RRef<Counter> give_back(const RRef<Counter>& counter) { return counter; }
RRef<int> make_local(int value) { return RRef<int>(value); }
int make_int(int value) { return value; }
int slow_int(int value, int ms) {
  std::this_thread::sleep_for(milliseconds(ms));
  return value;
}
int kept_back(int value, int caller) {
  test::hold(caller);
  return value;
}
void hand_out(int caller) { test::let_go(caller); }
int broken_int() { throw std::runtime_error("no int today"); }
Tensor make_weights(std::int64_t n) { return Tensor::full({n}, 2.0); }
LOCKSTEP_RPC(make_counter);
LOCKSTEP_RPC(use_counter);
LOCKSTEP_RPC(pass_on);
LOCKSTEP_RPC(use_later);
LOCKSTEP_RPC(give_back);
LOCKSTEP_RPC(make_local);
LOCKSTEP_RPC(make_int);
LOCKSTEP_RPC(slow_int);
LOCKSTEP_RPC(kept_back);
LOCKSTEP_RPC(hand_out);
LOCKSTEP_RPC(broken_int);
LOCKSTEP_RPC(make_weights);
LOCKSTEP_RPC(Counter::add);
LOCKSTEP_RPC(Counter::value);
LOCKSTEP_RPC(Counter::worker);

/// A holder of references, for circles.
struct Node {
  std::mutex mutex;
  std::vector<RRef<Node>> others;
  void hold(const RRef<Node>& other) {
    const std::lock_guard lock(mutex);
    others.push_back(other);
  }
};
std::unique_ptr<Node> make_node() { return std::make_unique<Node>(); }
LOCKSTEP_RPC(make_node);
LOCKSTEP_RPC(Node::hold);

rpc::ReferenceCounts counts() { return rpc::Agent::current().references().counts(); }

/// Once all messages have come: nothing is left on this rank.
void expect_nothing_left() {
  const auto start = Clock::now();
  const auto empty = [] {
    const rpc::ReferenceCounts now = counts();
    return now.owned == 0 && now.forks == 0 && now.users == 0 && now.given == 0;
  };
  while (!empty() && seconds_since(start) < 30) std::this_thread::sleep_for(milliseconds(1));
  const rpc::ReferenceCounts now = counts();
  EXPECT_EQ(now.owned, 0);
  EXPECT_EQ(now.forks, 0);
  EXPECT_EQ(now.users, 0);
  EXPECT_EQ(now.given, 0);
}

/// A call holds its object until it has returned, which may be after its answer has come.
void expect_none_alive() {
  const auto start = Clock::now();
  while (Counter::alive.load() != 0 && seconds_since(start) < 30) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_EQ(Counter::alive.load(), 0);
}

/// From now on messages that manage references are late, on all ranks.
void delay_messages(ProcessGroup& group, std::uint64_t seed, milliseconds longest) {
  rpc::Agent::current().references().delay_messages(seed, longest);
  group.barrier();
}

/// Undisturbed, and with messages that are late by up to 3 ms.
void on_disturbed_workers(const test::WorkerBody& body) {
  test::on_workers(body);
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::on_workers([&](ProcessGroup& group) {
      delay_messages(group, seed, milliseconds(3));
      body(group);
    });
  }
}

TEST(RRefs, RemoteKeepsTheResultOnItsRank) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const int to = test::after(group);
    const auto number = rpc::remote(to, make_int, 41);
    EXPECT_EQ(number.owner().id, to);
    EXPECT_EQ(number.owner().name, test::name_of_worker(to));
    EXPECT_EQ(number.is_owner(), to == group.rank());
    EXPECT_EQ(number.to_here(), 41);
    const auto weights = rpc::remote(to, make_weights, 30000);
    EXPECT_EQ(weights.to_here().to_vector<float>(), std::vector<float>(30000, 2.0F));
    const auto counter = rpc::remote(to, make_counter, 10);
    EXPECT_EQ(counter.rpc_sync(&Counter::add, 5), 15);
    EXPECT_EQ(counter.rpc_async(&Counter::value).wait(), 15);
    EXPECT_EQ(counter.rpc_sync(&Counter::worker), to);
    EXPECT_EQ(counter.call_within(std::chrono::seconds(20), &Counter::value).wait(), 15);
    if (to != group.rank()) {
      EXPECT_NE(test::thrown_by<Error>([&] {
                  static_cast<void>(counter.local_value());
                }).find("whose object is on rank"),
                std::string::npos);
    } else {
      EXPECT_EQ(counter.local_value().count, 15);
    }
    const auto start = Clock::now();
    while (!number.confirmed_by_owner() && seconds_since(start) < 30) {
      rpc::serve(milliseconds(1));
    }
    EXPECT_TRUE(number.confirmed_by_owner());
  });
}

TEST(RRefs, OfAValueBelongToTheRankThatMakesThem) {
  test::on_workers([](ProcessGroup& group) {
    RRef<int> mine(7);
    EXPECT_TRUE(mine.is_owner());
    EXPECT_TRUE(mine.confirmed_by_owner());
    mine.local_value() = 8;
    EXPECT_EQ(mine.to_here(), 8);
    const RRef<int> theirs = rpc::rpc_sync(test::after(group), make_local, 9);
    EXPECT_EQ(theirs.owner().id, test::after(group));
    EXPECT_EQ(theirs.to_here(), 9);
    const RRef<int> none;
    EXPECT_THROW(static_cast<void>(none.to_here()), Error);
  });
}

TEST(RRefs, G1AnObjectLivesWhileItIsPassedOn) {
  on_disturbed_workers([](ProcessGroup& group) {
    for (int round = 0; round < 5; ++round) {
      auto counter = rpc::remote(test::after(group), make_counter, 0);
      // The only reference of this rank goes while the others are on their way.
      std::vector<rpc::Future<int>> uses;
      for (int r = 0; r < group.size(); ++r) {
        uses.push_back(rpc::rpc_async(r, pass_on, counter, group.size() + 1));
      }
      counter = {};
      for (const auto& use : uses) EXPECT_GE(use.wait(), 1);
    }
  });
}

TEST(RRefs, G2AnObjectGoesWhenItsLastReferenceHasGone) {
  for (const bool disturbed : {false, true}) {
    test::on_workers([&](ProcessGroup& group) {
      if (disturbed) delay_messages(group, 5, milliseconds(2));
      {
        const auto counter = rpc::remote(test::after(group), make_counter, 0);
        const auto again = rpc::rpc_sync((group.rank() + 2) % group.size(), give_back, counter);
        EXPECT_EQ(again.rpc_sync(&Counter::add, 1), 1);
      }
      expect_nothing_left();
      group.barrier();
      expect_none_alive();
      group.barrier();
    });
  }
}

void await_confirmation(const RRef<Counter>& counter) {
  const auto start = Clock::now();
  while (!counter.confirmed_by_owner() && seconds_since(start) < 30) rpc::serve(milliseconds(1));
}

// Its own share is confirmed, and could end before the owner hears of the other.
TEST(RRefs, G4ASenderMayDropItsReferenceAtOnce) {
  on_disturbed_workers([](ProcessGroup& group) {
    for (int i = 0; i < 10; ++i) {
      auto passed = rpc::remote(test::after(group), make_counter, 0);
      await_confirmation(passed);
      const auto use = rpc::rpc_async((group.rank() + 2) % group.size(), use_later, passed);
      passed = {};
      EXPECT_EQ(use.wait(), 1);
    }
    RRef<Counter> counter = rpc::remote(test::after(group), make_counter, 0);
    for (int i = 0; i < 20; ++i) {  // every hop drops the one before
      counter = rpc::rpc_sync((group.rank() + i) % group.size(), give_back, counter);
    }
    EXPECT_EQ(counter.rpc_sync(&Counter::add, 3), 3);
    counter = {};
    expect_nothing_left();
    group.barrier();
  });
}

TEST(RRefs, G5ADeletionDoesNotOvertakeItsQuestion) {
  on_disturbed_workers([](ProcessGroup& group) {
    for (int i = 0; i < 20; ++i) {
      auto number = rpc::remote(test::after(group), slow_int, i, 1);
      const auto value = number.to_here_async();
      number = {};
      EXPECT_EQ(value.wait(), i);
    }
    expect_nothing_left();
    group.barrier();
  });
}

TEST(RRefs, G6AQuestionMayComeBeforeTheObject) {
  test::on_workers([](ProcessGroup& group) {
    const auto number = rpc::remote(test::after(group), slow_int, 3, 100);
    std::vector<rpc::Future<int>> many;
    for (int i = 0; i < 10; ++i) many.push_back(number.to_here_async());
    for (const auto& one : many) EXPECT_EQ(one.wait(), 3);
  });
}

TEST(RRefs, G7ToHereThrowsTheErrorOfTheCreatingFunction) {
  test::on_workers([](ProcessGroup& group) {
    const auto broken = rpc::remote(test::after(group), broken_int);
    for (int i = 0; i < 2; ++i) {
      EXPECT_NE(test::thrown_by<rpc::RemoteError>([&] {
                  static_cast<void>(broken.to_here());
                }).find("no int today"),
                std::string::npos);
    }
  });
}

TEST(RRefs, ARemoteThatTimedOutMayBeFetchedLater) {
  test::on_workers([](ProcessGroup& group) {
    const auto number = rpc::remote(test::after(group), kept_back, 3, group.rank());
    EXPECT_NE(
        test::thrown_by<TimeoutError>([&] { static_cast<void>(number.to_here(milliseconds(50))); }),
        "");
    rpc::rpc_sync(test::after(group), hand_out, group.rank());
    EXPECT_EQ(number.to_here(), 3);
  });
}

TEST(RRefs, G9ThoseStillHeldAtShutdownAreTakenBackAndReported) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group);
      const auto held = rpc::remote(test::after(*group), make_counter, 0);
      const RRef<int> own(3);
      EXPECT_EQ(held.rpc_sync(&Counter::add, 1), 1);
      const rpc::ShutdownReport report = rpc::shutdown();
      EXPECT_EQ(report.taken_back, 2);
      EXPECT_TRUE(report.left.empty());
      EXPECT_THROW(held.rpc_sync(&Counter::add, 1), Error);
    });
    EXPECT_EQ(Counter::alive.load(), 0);
  }
}

TEST(RRefs, G9CirclesBetweenTwoWorkersAreTakenBack) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group);
      {
        const auto here = rpc::remote(group->rank(), make_node);
        const auto there = rpc::remote(test::after(*group), make_node);
        here.rpc_sync(&Node::hold, there);
        there.rpc_sync(&Node::hold, here);
      }
      const rpc::ShutdownReport report = rpc::shutdown();
      EXPECT_EQ(report.taken_back, 2);
      EXPECT_TRUE(report.left.empty());
    });
  }
}

TEST(RRefs, ShutdownWaitsForDeletionsInFlight) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      rpc::init(test::name_of_worker(group->rank()), *group);
      delay_messages(*group, 9, milliseconds(20));
      for (int i = 0; i < 50; ++i) {
        static_cast<void>(rpc::remote(test::after(*group), make_counter, 0));
      }
      const rpc::ShutdownReport report = rpc::shutdown();
      EXPECT_EQ(report.taken_back, 0);
      EXPECT_TRUE(report.left.empty());
    });
    EXPECT_EQ(Counter::alive.load(), 0);
  }
}

#ifdef __SANITIZE_THREAD__
constexpr int passed_round = 500;
#else
constexpr int passed_round = 10000;
#endif

TEST(RRefs, TenThousandPassedAroundLeaveNothing) {
  test::on_workers([](ProcessGroup& group) {
    if (group.size() < 2) return;
    const int many = passed_round / group.size();
    for (int i = 0; i < many; i += 50) {
      std::vector<rpc::Future<RRef<Counter>>> passed;
      for (int k = 0; k < 50; ++k) {
        passed.push_back(rpc::rpc_async((group.rank() + k) % group.size(), give_back,
                                        rpc::remote(test::after(group), make_counter, k)));
      }
      for (const auto& one : passed) EXPECT_EQ(one.wait().owner().id, test::after(group));
    }
    expect_nothing_left();
    group.barrier();
    expect_none_alive();
    group.barrier();
  });
}

}  // namespace
}  // namespace lockstep
