#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

// docs/guide/rpc.md: its program is a file, and prints the page's output.

namespace lockstep::test {
namespace {

TEST(RpcPage, ShowsTheProgramAndItsOutput) {
  const std::string page = read_file(source("docs/guide/rpc.md"));
  const std::string program =
      "```cpp\n" + read_file(source("docs/examples/remote_calls.cpp")) + "```";
  const auto at = page.find(program);
  ASSERT_NE(at, std::string::npos)
      << "docs/guide/rpc.md does not hold docs/examples/remote_calls.cpp";
  for (const int ranks : {2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/remote_calls", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_NE(page.find("\n```\n" + finished.output + "```", at + program.size()),
              std::string::npos)
        << finished.output;
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
