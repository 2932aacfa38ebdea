// train.accumulate: a step in parts is the same step, to rounding.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {
namespace {

/// All parameters after an epoch whose last batch has 5 samples, fewer than ranks times parts.
std::vector<float> train_in_parts(int ranks, int parts) {
  std::vector<float> weights;
  std::mutex reading;
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<Classification> task;
    RunPlan plan;
    {
      const std::lock_guard lock(reading);
      auto deck = Deck::parse(R"(
        data = {kind = "synthetic", synthetic_samples = 77, synthetic_test_samples = 20, synthetic_image_size = 12}
        model = {kind = "mlp", hidden = [16]}
        train = {batch_size = 24}
        optimizer = {lr = 0.05, momentum = 0.9}
      )",
                              "accumulate", {"train.accumulate=" + std::to_string(parts)});
      plan = read_run_plan(deck);
      task = std::make_unique<Classification>(deck);
    }
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
    trainer.start_epoch(0);
    for (int step = 0; step < trainer.steps_an_epoch(); ++step) trainer.step();
    if (group.rank() != 0) return;
    for (const auto& parameter : trainer.model().parameters()) {
      const auto values = parameter.data().to_vector<float>();
      weights.insert(weights.end(), values.begin(), values.end());
    }
  });
  return weights;
}

TEST(Accumulation, OfAnyNumberOfPartsIsTheWholeStepToRounding) {
  const auto whole = train_in_parts(1, 1);
  const float largest =
      std::abs(*std::ranges::max_element(whole, {}, [](float w) { return std::abs(w); }));
  for (const int ranks : {1, 2, 3}) {
    for (const int parts : {2, 3, 100}) {
      const auto weights = train_in_parts(ranks, parts);
      ASSERT_EQ(weights.size(), whole.size());
      float difference = 0;
      for (std::size_t i = 0; i < whole.size(); ++i)
        difference = std::max(difference, std::abs(weights[i] - whole[i]));
      EXPECT_LT(difference, 2e-6F * largest) << ranks << " ranks, " << parts << " parts";
    }
  }
}

}  // namespace
}  // namespace lockstep::train
