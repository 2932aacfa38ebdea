#include <lockstep/comm/agreement.hpp>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/host.hpp>
#include <new>
#include <numeric>

namespace lockstep {
namespace {

/// The error that agree() throws; a default one if it throws none.
template <class Call>
AgreedError error_of(const Call& call) {
  try {
    call();
  } catch (const AgreedError& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return AgreedError("");
}

struct Found {
  std::vector<int> ranks;
  std::optional<std::string> text;

  static auto fields(auto& self) { return std::tie(self.ranks, self.text); }
};

TEST(Agree, NoRankThrowsIfNoneFailed) {
  test::on_every_group([](ProcessGroup& group) {
    int runs = 0;
    agree(group, [&] { ++runs; });
    EXPECT_EQ(runs, 1);
  });
}

TEST(Agree, GivesEveryRanksValueInRankOrder) {
  test::on_every_group([](ProcessGroup& group) {
    const auto all = agree(group, [&] {
      Found mine{.ranks = std::vector<int>(static_cast<std::size_t>(group.rank())), .text = {}};
      std::iota(mine.ranks.begin(), mine.ranks.end(), 0);
      if (group.rank() % 2 == 1) mine.text = "odd\n" + std::to_string(group.rank());
      return mine;
    });
    ASSERT_EQ(all.size(), static_cast<std::size_t>(group.size()));
    for (int rank = 0; rank < group.size(); ++rank) {
      const Found& one = all[static_cast<std::size_t>(rank)];
      EXPECT_EQ(one.ranks.size(), static_cast<std::size_t>(rank));
      EXPECT_EQ(one.text.value_or("even"), rank % 2 == 1 ? "odd\n" + std::to_string(rank) : "even");
    }
  });
}

TEST(Agree, RunsOnTheRootAloneAndGivesItsValueToAll) {
  test::on_every_group([](ProcessGroup& group) {
    const int root = group.size() - 1;
    int runs = 0;
    const std::string value = agree(group, root, [&] {
      ++runs;
      return "of " + std::to_string(group.rank());
    });
    EXPECT_EQ(value, "of " + std::to_string(root));
    agree(group, root, [&] { ++runs; });
    EXPECT_EQ(runs, group.rank() == root ? 2 : 0);
  });
}

// Agreement with and without a value.
TEST(Agree, ThrowsTheLowestFailedRanksErrorOnAllRanks) {
  test::on_every_group([](ProcessGroup& group) {
    const int lowest = group.size() / 2;
    const auto part = [&] {
      if (group.rank() == lowest) throw CheckpointError("disk full\non it");
      if (group.rank() > lowest) throw InputError("something else");
      return group.rank();
    };
    for (const bool with_value : {true, false}) {
      const AgreedError error = error_of([&] {
        if (with_value) static_cast<void>(agree(group, part));
        agree(group, [&] { static_cast<void>(part()); });
      });
      EXPECT_EQ(error.rank, lowest);
      EXPECT_EQ(error.host, host_name());
      EXPECT_EQ(error.ranks, group.size());
      EXPECT_EQ(error.message, "disk full\non it");
      EXPECT_EQ(error.kind, FailureKind::other);
      EXPECT_EQ(error.exit_code(), ExitCode::checkpoint);
      EXPECT_EQ(error.everywhere, group.size() == 1);
      EXPECT_EQ(error.what(), rank_prefix(lowest, group.size(), host_name()) + "disk full\non it");
    }
  });
}

TEST(Agree, ReportsACommonErrorWithoutARank) {
  test::on_every_group([](ProcessGroup& group) {
    const AgreedError error =
        error_of([&] { agree(group, [] { throw InputError("no such deck"); }); });
    EXPECT_STREQ(error.what(), "no such deck");
    EXPECT_TRUE(error.everywhere);
    EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
  });
}

TEST(Agree, DistinguishesOutOfMemoryByItsKind) {
  test::on_every_group([](ProcessGroup& group) {
    const AgreedError error = error_of([&] { agree(group, 0, [] { throw std::bad_alloc(); }); });
    EXPECT_EQ(error.kind, FailureKind::out_of_memory);
    EXPECT_EQ(error.exit_code(), ExitCode::failure);
    EXPECT_EQ(error.rank, 0);
  });
}

TEST(Agree, RefusesAndWaitsByItsOptions) {
  test::on_every_group([](ProcessGroup& group) {
    int waits = 0;
    const AgreeOptions options{.wait =
                                   [&](Work& work) {
                                     ++waits;
                                     work.wait();
                                   },
                               .refuse =
                                   [](const AgreedFailure& failure) {
                                     throw Agreed<CheckpointError>(failure,
                                                                   "not saved: " + failure.message);
                                   }};
    EXPECT_EQ(agree(
                  group, 0, [] { return 7; }, options),
              7);
    EXPECT_GT(waits, 0);
    try {
      agree(
          group, 0, [] { throw Error("no room"); }, options);
      ADD_FAILURE();
    } catch (const CheckpointError& error) {
      EXPECT_STREQ(error.what(), "not saved: no room");
      EXPECT_TRUE(is_agreed_by_all(group.size()));
    }
  });
}

TEST(Agree, CoversAllRanksIfTheGroupDoes) {
  test::on_every_group([](ProcessGroup& group) {
    try {
      agree(group, 0, [] { throw Error("no"); });
    } catch (...) {
      EXPECT_TRUE(is_agreed_by_all(group.size()));
      EXPECT_FALSE(is_agreed_by_all(group.size() + 1)) << "the group is a part of the job's ranks";
    }
    try {
      throw Error("alone");
    } catch (...) {
      EXPECT_FALSE(is_agreed_by_all(group.size()));
    }
    try {
      throw Agreed<InputError>("all see it");
    } catch (const Error& error) {
      EXPECT_TRUE(is_agreed_by_all(group.size()));
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    }
  });
}

}  // namespace
}  // namespace lockstep
