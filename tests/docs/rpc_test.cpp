#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

#include "page.hpp"

// docs/guide/rpc.md: it shows lines of a program, and what that prints.

namespace lockstep::test {
namespace {

TEST(RpcPage, ShowsLinesOfTheProgramAndWhatItPrints) {
  for (const int ranks : {2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/remote_calls", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    expect_excerpt_and_output("rpc.md", "remote_calls", finished.output);
  }
}

TEST(RpcPage, ParameterServerTrainsInEachOfItsWays) {
  for (const int ranks : {2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/parameter_server", {"300"}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    for (const std::string mode : {"forward", "async", "batch"}) {
      std::smatch line;
      ASSERT_TRUE(std::regex_search(finished.output, line,
                                    std::regex(mode + " .*updates/s  loss ([0-9.]+)")))
          << finished.output;
      EXPECT_LT(std::stod(line[1]), 1.2) << finished.output;  // 2.3 at first
    }
  }
}

}  // namespace
}  // namespace lockstep::test
