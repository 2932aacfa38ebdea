#include <gtest/gtest.h>

#include <support/allocation_counter.hpp>

#include "networks.hpp"

namespace lockstep {
namespace {

TEST(Predictor, AllocatesNothingOnceItHasPredictedAsMany) {
  for (const auto& [name, options, input] : test::zoo()) {
    const Predictor predictor = test::scaling_predictor(options, input);
    const auto raw = test::raw_inputs(10 * input.numel());
    std::vector<float> output(50);
    const auto predict = [&] { predictor.predict(raw, output); };
    for (int i = 0; i < 5; ++i) predict();
    const auto before = test::allocation_count() + memory_stats().system_allocations;
    for (int i = 0; i < 20; ++i) predict();
    EXPECT_EQ(test::allocation_count() + memory_stats().system_allocations, before) << name;
  }
}

}  // namespace
}  // namespace lockstep
