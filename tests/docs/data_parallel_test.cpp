#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

namespace lockstep::test {
namespace {

TEST(DataParallelPage, ShowsTheOwnCommHookProgramThatIsCompiled) {
  EXPECT_NE(read_file(source("docs/data_parallel.md"))
                .find("```cpp\n" + read_file(source("docs/examples/own_comm_hook.cpp")) + "```"),
            std::string::npos)
      << "docs/data_parallel.md does not hold docs/examples/own_comm_hook.cpp word for word";
}

TEST(OwnCommHook, LearnsWithHalfOfTheBytesOnOneTwoAndFourRanks) {
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/own_comm_hook", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    std::smatch last, bytes;
    ASSERT_TRUE(std::regex_search(finished.output, last, std::regex("epoch 3  loss ([0-9.]+)")))
        << finished.output;
    EXPECT_LT(std::stod(last[1]), 0.1) << finished.output;
    ASSERT_TRUE(std::regex_search(finished.output, bytes,
                                  std::regex("sent ([0-9.]+) MB in place of ([0-9.]+) MB")))
        << finished.output;
    EXPECT_GT(std::stod(bytes[1]), 1.0) << finished.output;
    EXPECT_NEAR(2 * std::stod(bytes[1]), std::stod(bytes[2]), 0.2) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
