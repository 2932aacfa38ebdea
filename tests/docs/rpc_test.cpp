#include <gtest/gtest.h>

#include <support/process.hpp>

// docs/rpc.md: its program is a file, and prints what the page shows.

namespace lockstep::test {
namespace {

TEST(RpcPage, ShowsTheProgramAndWhatItPrints) {
  const std::string page = read_file(source("docs/rpc.md"));
  const std::string program =
      "```cpp\n" + read_file(source("docs/examples/remote_calls.cpp")) + "```";
  const auto at = page.find(program);
  ASSERT_NE(at, std::string::npos) << "docs/rpc.md does not hold docs/examples/remote_calls.cpp";
  for (const int ranks : {2, 3}) {
    const Finished finished = run(app(ranks, "docs/examples/remote_calls", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_NE(page.find("\n```\n" + finished.output + "```", at + program.size()),
              std::string::npos)
        << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
