#include <gtest/gtest.h>

#include <support/process.hpp>

namespace lockstep::test {
namespace {

TEST(KilledCallee, EndsTheJobSoonWithACode) {
  const ScratchFolder scratch;
  const std::string mark = scratch.file("mark");
  const Finished finished = run(app(2, "tests/rpc/rpc_killed_callee_program", {mark}));
  EXPECT_NE(finished.exit_code, 0) << finished.output;
  EXPECT_NE(finished.exit_code, 124) << finished.output;  // it was not waited for in vain
  EXPECT_LT(seconds_since_written(mark), 30);
}

}  // namespace
}  // namespace lockstep::test
