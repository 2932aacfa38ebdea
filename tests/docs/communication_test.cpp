#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <support/process.hpp>
#include <vector>

#include "page.hpp"

// docs/guide/communication.md: its blocks are lines of programs, which do what the page says and
// print what the page shows.

namespace lockstep::test {
namespace {

constexpr const char* communication_page = "communication.md";

Finished run_example(int ranks, const std::string& example) {
  return run(app(ranks, "docs/examples/" + example, {}));
}

struct Shown {
  const char* example;
  int ranks;  ///< number of ranks for the page's output
};
class CommunicationPage : public testing::TestWithParam<Shown> {};

TEST_P(CommunicationPage, ShowsLinesOfTheProgramAndWhatItPrints) {
  for (const int ranks : {2, 4}) {
    const Finished finished = run_example(ranks, GetParam().example);
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    if (ranks == GetParam().ranks)
      expect_excerpt_and_output(communication_page, GetParam().example, finished.output);
  }
}

INSTANTIATE_TEST_SUITE_P(Examples, CommunicationPage,
                         testing::Values(Shown{"collectives", 2}, Shown{"messages", 4},
                                         Shown{"groups", 4}),
                         [](const auto& example) { return std::string(example.param.example); });

TEST(CommunicationPage, SharedBuffersAreReduced) {
  expect_excerpt(communication_page, "shared_buffer");
  for (const int ranks : {2, 4}) {
    const Finished finished = run_example(ranks, "shared_buffer");
    EXPECT_EQ(finished.exit_code, 0);
    EXPECT_TRUE(finished.says("mean of the last step 10")) << finished.output;
  }
}

TEST(CommunicationPage, ALateRankIsNamedAtTheDeadline) {
  expect_excerpt(communication_page, "deadline");
  for (const int ranks : {2, 4}) {
    const std::string call = "all_reduce(sum) #2 of f32[1000] has not completed";
    const std::string who = "rank 0 has not entered it";
    Finished finished;
    for (int run = 0; run < 3 && !(finished.says(call) && finished.says(who)); ++run) {
      finished = run_example(ranks, "deadline");  // on a busy machine others may be late earlier
    }
    EXPECT_EQ(finished.exit_code, 3) << finished.output;
    EXPECT_TRUE(finished.says(call)) << finished.output;
    EXPECT_TRUE(finished.says(who)) << finished.output;
    EXPECT_LT(finished.seconds, 30);  // rank 0 is late by that much
  }
}

TEST(CommunicationPage, ShowsGroupsWithoutMpi) {
  const Finished finished = run({built("docs/examples/groups_without_mpi")});
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  expect_excerpt_and_output(communication_page, "groups_without_mpi", finished.output);
}

TEST(CommunicationPage, AveragedGradientsTrain) {
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run_example(ranks, "average_gradients");
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    std::smatch last;
    ASSERT_TRUE(std::regex_search(finished.output, last, std::regex("epoch 3  loss ([0-9.]+)")))
        << finished.output;
    EXPECT_LT(std::stod(last[1]), 0.1) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
