#include <gtest/gtest.h>

#include <string>
#include <support/process.hpp>

#include "page.hpp"

// Pages about models over several ranks: their listings are lines of programs that train.

namespace lockstep::test {
namespace {

TEST(ModelParallelPages, ShowLinesOfTheirPrograms) {
  expect_excerpt("sharded.md", "fully_shard");
  expect_excerpt("tensor_parallel.md", "tensor_parallel");
  expect_excerpt("pipeline_parallel.md", "pipeline_parallel");
  expect_excerpt("context_parallel.md", "context_parallel");
}

TEST(ModelParallelPages, ATensorParallelGptLearnsOnPartsOfItsParameters) {
  for (const int ranks : {1, 2}) {
    const Finished finished = run(app(ranks, "docs/examples/tensor_parallel", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_EQ(finished.says("about half of the parameters"), ranks == 2) << finished.output;
    EXPECT_EQ(finished.says("up.weight is [16, 8] here"), ranks == 2) << finished.output;
  }
}

TEST(ModelParallelPages, AContextParallelGptHasTheSameLossOnAnyRanks) {
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/context_parallel", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_TRUE(finished.says("step 20: loss 0.53, " + std::to_string(64 / ranks)))
        << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
