// The whole training loop with ranks that are threads: what ThreadSanitizer sees of it.
#include <gtest/gtest.h>

#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/trainer.hpp>
#include <mutex>
#include <vector>

namespace lockstep::train {
namespace {

struct Result {
  std::vector<float> weights;
  double loss = 0, accuracy = 0;
};

/// Twelve steps of a small run on `ranks` threads; what each rank ends with.
std::vector<Result> train_on_threads(int ranks) {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  std::mutex reading;
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<Classification> task;
    RunPlan plan;
    {
      const std::lock_guard lock(reading);
      auto deck = Deck::parse(R"(
        data = {kind = "synthetic", synthetic_samples = 240, synthetic_test_samples = 50, synthetic_image_size = 16}
        train = {batch_size = 20}
        optimizer = {lr = 0.05, momentum = 0.9}
      )",
                              "threads_test");
      plan = read_run_plan(deck);
      task = std::make_unique<Classification>(deck);
    }
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
    trainer.start_epoch(0);
    for (int step = 0; step < 12; ++step) trainer.step();
    const auto evaluation = trainer.evaluate();
    results[static_cast<std::size_t>(group.rank())] = {
        trainer.model().parameters()[0].data().to_vector<float>(), evaluation.loss,
        evaluation.metrics.at(0).second};
  });
  return results;
}

TEST(TrainerOnThreads, AllRanksEndWithTheSameBitsAndLearnAsOneRankDoes) {
  const Result alone = train_on_threads(1).front();
  for (const int ranks : {2, 3}) {
    const auto results = train_on_threads(ranks);
    for (const Result& result : results) {
      EXPECT_EQ(result.weights, results.front().weights);
      EXPECT_EQ(result.loss, results.front().loss);
    }
    EXPECT_NEAR(results.front().loss, alone.loss, 1e-4)
        << ranks << " ranks round differently, no more";
  }
}

}  // namespace
}  // namespace lockstep::train
