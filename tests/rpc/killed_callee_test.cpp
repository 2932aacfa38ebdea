#include <gtest/gtest.h>

#include <support/process.hpp>

namespace lockstep::test {
namespace {

TEST(KilledCallee, EndsTheJobPromptlyWithACode) {
  const ScratchFolder scratch;
  const std::string mark = scratch.file("mark");
  const Finished finished = run(app(2, "tests/rpc/rpc_killed_callee_program", {mark}));
  EXPECT_NE(finished.exit_code, 0) << finished.output;
  EXPECT_NE(finished.exit_code, 124) << finished.output;  // 124: the job had to be killed
  EXPECT_LT(seconds_since_written(mark), 30);
}

TEST(EndsByException, HasTheExceptionsCode) {
  for (int i = 0; i < 5; ++i) {
    const Finished finished = run(app(2, "tests/rpc/rpc_ends_by_exception_program", {}));
    EXPECT_TRUE(finished.ended_with(2)) << finished.exit_code << ": " << finished.output;
    EXPECT_TRUE(finished.says("the data set is not what it was")) << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
