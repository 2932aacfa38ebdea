#include <gtest/gtest.h>

#include <thread>

#include "networks.hpp"

namespace lockstep {
namespace {

TEST(Predictor, ServesSeveralThreadsAtATimeWithTheSameBits) {
  for (const auto& [name, options, input] : test::zoo()) {
    const Predictor predictor = test::scaling_predictor(options, input);
    const auto raw = test::raw_inputs(9 * input.numel());
    std::vector<float> want(45);
    predictor.predict(raw, want);
    std::vector<int> wrong(3);
    {
      std::vector<std::jthread> threads;
      for (int& mine : wrong) {
        threads.emplace_back([&] {
          std::vector<float> output(45);
          for (int i = 0; i < 10; ++i) {
            predictor.predict(raw, output);
            mine += output != want ? 1 : 0;
          }
        });
      }
    }
    EXPECT_EQ(wrong, std::vector<int>(3)) << name;
  }
}

}  // namespace
}  // namespace lockstep
