#include <lockstep/comm/agreement.hpp>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/host.hpp>

namespace lockstep {
namespace {

TEST(FirstFailure, IsNoneWhereEveryRankCanGoOn) {
  test::on_every_group([](ProcessGroup& group) { EXPECT_FALSE(first_failure(group, "")); });
}

TEST(FirstFailure, IsTheLowestFailedRanksOnAllRanks) {
  test::on_every_group([](ProcessGroup& group) {
    const int lowest = group.size() / 2;
    const auto mine = group.rank() < lowest ? "" : "disk full\non " + std::to_string(group.rank());
    const auto failure = first_failure(
        group, mine, group.rank() == lowest ? ExitCode::checkpoint : ExitCode::failure);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->rank, lowest);
    EXPECT_EQ(failure->message, "disk full\non " + std::to_string(lowest));
    EXPECT_EQ(failure->code, ExitCode::checkpoint);
    EXPECT_EQ(failure->host, host_name());
    EXPECT_EQ(failure->everywhere, group.size() == 1);
  });
}

TEST(FirstFailure, IsEverywhereWhereAllRanksSayTheSame) {
  test::on_every_group([](ProcessGroup& group) {
    const auto failure = first_failure(group, "no such deck", ExitCode::bad_input);
    ASSERT_TRUE(failure);
    EXPECT_TRUE(failure->everywhere);
    EXPECT_EQ(failure->code, ExitCode::bad_input);
  });
}

}  // namespace
}  // namespace lockstep
