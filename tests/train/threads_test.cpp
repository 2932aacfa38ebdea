// The whole training loop with ranks as threads: for ThreadSanitizer.
#include <gtest/gtest.h>

#include <lockstep/base/trace.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/run_trace.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <support/process.hpp>
#include <vector>

namespace lockstep::train {
namespace {

struct Result {
  std::vector<float> weights;
  double loss = 0, accuracy = 0;
};

/// Twelve steps of a small run on `ranks` threads, traced into `trace_file` if given; returns each
/// rank's final state.
std::vector<Result> train_on_threads(int ranks, const std::string& trace_file = "") {
  std::vector<Result> results(static_cast<std::size_t>(ranks));
  std::mutex deck_mutex;
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<Classification> task;
    RunPlan plan;
    {
      const std::lock_guard lock(deck_mutex);
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
    std::optional<RunTrace> trace;
    if (!trace_file.empty()) trace.emplace(group, trainer.model());
    trainer.start_epoch(0);
    for (int step = 0; step < 12; ++step) trainer.step();
    const auto evaluation = trainer.evaluate();
    if (trace) trace->write(trace_file);
    results[static_cast<std::size_t>(group.rank())] = {
        trainer.model().parameters()[0].data().to_vector<float>(), evaluation.loss,
        evaluation.metrics.at(0).second};
  });
  return results;
}

TEST(TrainerOnThreads, TraceShowsEachRankItsOwnThreads) {
  const test::ScratchFolder scratch;
  static_cast<void>(train_on_threads(2, scratch.file("trace.json")));
  const auto file = nlohmann::json::parse(test::read_file(scratch.file("trace.json")));
  std::map<std::string, int> found;
  for (const auto& event : file.at("traceEvents")) {
    const std::string rank = std::to_string(event.at("pid").get<int>() - 1),
                      name = event.at("name").get<std::string>(),
                      phase = event.at("ph").get<std::string>();
    if (name == "thread_name")
      ++found[rank + " has " + event.at("args").at("name").get<std::string>()];
    if (name == "optimizer") ++found[rank + " steps"];
    if (name == "bucket 0") ++found[rank + " " + phase + " bucket"];
  }
  for (const std::string rank : {"0", "1"}) {
    EXPECT_EQ(found[rank + " has training"], 1);
    EXPECT_GE(found[rank + " has loader"], 1);
    EXPECT_EQ(found[rank + " steps"], 12);
    EXPECT_EQ(found[rank + " b bucket"], 12);
    EXPECT_EQ(found[rank + " e bucket"], 12);
  }
  EXPECT_FALSE(tracing());
}

TEST(RunTrace, OfSixtyFourRanksIsOneFile) {
  const test::ScratchFolder scratch;
  constexpr int ranks = 64;
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    nn::Linear model(1, 1);
    RunTrace trace(group, model);
    { const TraceScope scope("test", "work", nullptr, group.rank()); }
    trace.write(scratch.file("trace.json"));
  });
  const auto file = nlohmann::json::parse(test::read_file(scratch.file("trace.json")));
  std::map<int, int> work;
  for (const auto& event : file.at("traceEvents")) {
    const int rank = event.at("pid").get<int>() - 1;
    if (event.at("name") == "work " + std::to_string(rank)) ++work[rank];
  }
  ASSERT_EQ(work.size(), static_cast<std::size_t>(ranks));
  for (const auto& [rank, count] : work) EXPECT_EQ(count, 1) << "of rank " << rank;
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
