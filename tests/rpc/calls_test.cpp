// Calls, their arguments and results, whom they go to, and what cannot be called.
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using rpc::Future;
using test::name_of_worker;

int add(int a, int b) { return a + b; }
double half(double x) { return x / 2; }
std::string greet(const std::string& name) { return "hello " + name; }
int here() { return rpc::this_worker().id; }
std::string my_name() { return rpc::this_worker().name; }
std::atomic<int> called = 0;
void count_call() { ++called; }

struct Point {
  double x = 0;
  std::vector<int> tags;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x, tags);
  }
};
using Everything = std::tuple<std::map<std::string, std::vector<Point>>, std::optional<int>,
                              std::variant<int, std::string>, bool, std::pair<char, std::uint64_t>>;
Everything echo_everything(const Everything& all) { return all; }

int take_rvalue(std::vector<int>&& values) { return static_cast<int>(values.size()); }
int noexcept_one() noexcept { return 17; }
int never_registered(int a) { return a; }

struct Math {
  static int twice(int a) { return 2 * a; }
};

LOCKSTEP_RPC(add);
LOCKSTEP_RPC(half);
LOCKSTEP_RPC(greet);
LOCKSTEP_RPC(here);
LOCKSTEP_RPC(my_name);
LOCKSTEP_RPC(count_call);
LOCKSTEP_RPC(echo_everything);
LOCKSTEP_RPC(take_rvalue);
LOCKSTEP_RPC(noexcept_one);
LOCKSTEP_RPC(Math::twice);
LOCKSTEP_RPC_AS("rpc test: a second name is no harm", add);

TEST(Calls, ReachEveryWorkerByNameAndById) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    for (int r = 0; r < group.size(); ++r) {
      EXPECT_EQ(rpc::rpc_sync(r, here), r);
      EXPECT_EQ(rpc::rpc_sync(name_of_worker(r), my_name), name_of_worker(r));
      EXPECT_EQ(rpc::rpc_sync(rpc::worker(name_of_worker(r)), here), r);
      EXPECT_EQ(rpc::all_workers()[static_cast<std::size_t>(r)].name, name_of_worker(r));
    }
  });
}

TEST(Calls, ConvertTheirArgumentsOnTheCallersSide) {
  test::on_workers([](ProcessGroup& group) {
    const int to = test::after(group);
    EXPECT_EQ(rpc::rpc_sync(to, half, 3), 1.5);
    EXPECT_EQ(rpc::rpc_sync(to, add, short{3}, 'a'), 3 + 'a');
    EXPECT_EQ(rpc::rpc_sync(to, greet, "you"), "hello you");
    EXPECT_EQ(rpc::rpc_sync(to, take_rvalue, std::vector<int>{1, 2, 3}), 3);
    EXPECT_EQ(rpc::rpc_sync(to, noexcept_one), 17);
    EXPECT_EQ(rpc::rpc_sync(to, Math::twice, 21), 42);
  });
}

TEST(Calls, CarryTypesThatCerealSerializes) {
  test::on_workers([](ProcessGroup& group) {
    const Everything all{{{"a", {{.x = 1.5, .tags = {1, 2}}, {}}}, {"", {}}},
                         7,
                         std::string("seven"),
                         true,
                         {'c', ~0ULL}};
    const Everything back = rpc::rpc_sync(test::after(group), echo_everything, all);
    const auto& points = std::get<0>(back).at("a");
    ASSERT_EQ(points.size(), 2U);
    EXPECT_EQ(points[0].x, 1.5);
    EXPECT_EQ(points[0].tags, (std::vector<int>{1, 2}));
    EXPECT_TRUE(std::get<0>(back).at("").empty());
    EXPECT_EQ(std::get<1>(back), 7);
    EXPECT_EQ(std::get<std::string>(std::get<2>(back)), "seven");
    EXPECT_EQ(std::get<3>(back), true);
    EXPECT_EQ(std::get<4>(back), (std::pair<char, std::uint64_t>{'c', ~0ULL}));
  });
}

TEST(Calls, AreOverWhenTheirFuturesAre) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    constexpr int many = 500;
    std::vector<Future<int>> futures;
    for (int i = 0; i < many; ++i) {
      futures.push_back(rpc::rpc_async(i % group.size(), add, i, group.rank()));
    }
    for (int i = many; i-- > 0;) {  // in another order
      EXPECT_EQ(futures[static_cast<std::size_t>(i)].wait(), i + group.rank());
      EXPECT_TRUE(futures[static_cast<std::size_t>(i)].test());
    }
  });
}

TEST(Calls, OfVoidFunctionsAreExecutedOnce) {
  called = 0;
  test::on_workers([](ProcessGroup& group) {
    for (int i = 0; i < 10; ++i) rpc::rpc_sync(test::after(group), count_call);
  });
  int expected = 0;
  for (const int ranks : test::rank_counts()) expected += 10 * ranks;
  if (test::rank_counts().size() == 1) expected = 10;  // of this process
  EXPECT_EQ(called.load(), expected);
}

TEST(Calls, OfUnknownWorkersAndFunctionsAreRefusedByTheCaller) {
  test::on_workers([](ProcessGroup& group) {
    std::string said = test::thrown_by<InputError>([] { rpc::rpc_sync("nobody", add, 1, 2); });
    EXPECT_NE(said.find("there is no worker \"nobody\"; there are worker0"), std::string::npos)
        << said;
    said = test::thrown_by<InputError>([] { rpc::rpc_sync(99, add, 1, 2); });
    EXPECT_NE(said.find("there is no worker 99"), std::string::npos) << said;
    said = test::thrown_by<InputError>(
        [&] { rpc::rpc_sync(test::after(group), never_registered, 1); });
    EXPECT_NE(said.find("LOCKSTEP_RPC"), std::string::npos) << said;
    EXPECT_EQ(rpc::rpc_sync(test::after(group), add, 1, 2), 3);  // nothing has suffered
  });
}

TEST(Calls, AfterShutdownThrow) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      EXPECT_NE(test::thrown_by<Error>([] { rpc::rpc_sync(0, add, 1, 2); }), "");
      rpc::init(name_of_worker(group->rank()), *group);
      rpc::Agent& agent = rpc::current_agent();
      EXPECT_NE(test::thrown_by<Error>([&] { rpc::init("again", *group); }), "");
      EXPECT_EQ(rpc::rpc_sync(test::after(*group), add, 1, 2), 3);
      rpc::shutdown();
      EXPECT_NE(test::thrown_by<Error>([] { rpc::rpc_sync(0, add, 1, 2); }), "");
      const rpc::WorksFor late(agent);
      const std::string said = test::thrown_by<CommError>([] { rpc::rpc_sync(0, add, 1, 2); });
      EXPECT_NE(said.find("it was shut down"), std::string::npos) << said;
    });
  }
}

TEST(Calls, NeedUniqueWorkerNames) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 2) continue;
    test::on_ranks(ranks, [](const std::shared_ptr<ProcessGroup>& group) {
      const std::string said = test::thrown_by<InputError>([&] { rpc::init("same", *group); });
      EXPECT_NE(said.find("two ranks have the name \"same\""), std::string::npos) << said;
      const std::string empty = test::thrown_by<InputError>(
          [&] { rpc::init(group->rank() == 1 ? "" : name_of_worker(group->rank()), *group); });
      EXPECT_NE(empty.find("rank 1 gave no name"), std::string::npos) << empty;
      rpc::init(name_of_worker(group->rank()), *group);  // the group is as before
      EXPECT_EQ(rpc::rpc_sync(test::after(*group), add, 1, 2), 3);
      rpc::shutdown();
    });
  }
}

TEST(Calls, FromManyThreadsGetTheirOwnAnswers) {
  test::on_workers([](ProcessGroup& group) {
    rpc::Agent& agent = rpc::current_agent();
    std::atomic<int> right = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        const rpc::WorksFor scope(agent);
        for (int i = 0; i < 50; ++i) {
          right += rpc::rpc_sync((i + t) % group.size(), add, 1000 * t, i) == 1000 * t + i;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right.load(), 400);
  });
}

}  // namespace
}  // namespace lockstep
