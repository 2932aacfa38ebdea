#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>

#include "page.hpp"

// docs/examples/pipeline_parallel.cpp, of docs/guide/pipeline_parallel.md.

namespace lockstep::test {
namespace {

TEST(PipelineExample, TrainsOnPipelinesAndReplicasOfThem) {
  for (const int ranks : {1, 2, 4}) {
    const Finished finished = run(app(ranks, "docs/examples/pipeline_parallel", {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    std::smatch last;
    ASSERT_TRUE(std::regex_search(finished.output, last, std::regex("step 60  loss ([0-9.]+)\n")))
        << finished.output;
    EXPECT_LT(std::stod(last[1]), 0.01) << finished.output;
    EXPECT_EQ(finished.says("1f1b, 2 ranks, 2 stages, 4 micro-batches: bubble 20.0 %"), ranks > 1)
        << finished.output;
  }
}

}  // namespace
}  // namespace lockstep::test
