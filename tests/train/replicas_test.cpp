// train.check_replicas_every: a rank with deviating state ends the run on all ranks, before that
// state is saved. Through a whole program: tests/apps/replicas_test.cpp.
#include <gtest/gtest.h>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

/// Three steps on `ranks` threads; then a bit of the last rank's `slot` flips, and the run
/// continues. No parameter moves, so the fault stays in place. Returns each rank's message.
std::vector<std::string> sentences(int ranks, const std::string& slot, const std::string& every,
                                   const std::string& folder) {
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  Console console(0);
  console.set_level(LogLevel::error);
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    auto deck = Deck::parse(R"(
      data = {kind = "synthetic", synthetic_samples = 200, synthetic_test_samples = 30, synthetic_image_size = 16}
      train = {epochs = 1, batch_size = 20, check_replicas_every = )" +
                                every + R"(}
      optimizer = {kind = "adamw", lr = 0.0, weight_decay = 0.0}
      checkpoint = {every_steps = 4}
    )",
                            "replicas_test");
    const RunPlan plan = read_run_plan(deck);
    const Classification task(deck);
    const auto run_folder = RunFolder::open(group, {.dir = folder}, false);
    MetricsFile metrics;
    if (group.rank() == 0) metrics = MetricsFile(run_folder.file("metrics.jsonl"));
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), task, plan);
    trainer.start_epoch(0);
    for (int step = 0; step < 3; ++step) trainer.step();
    if (group.rank() == ranks - 1) {
      const Tensor broken = trainer.optimizer().state_dict().at(slot);
      static_cast<std::uint8_t*>(broken.data())[1] ^= 1U;
    }
    try {
      trainer.run(run_folder, metrics, console, deck.resolved());
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.exit_code(), ExitCode::failure);
      said[static_cast<std::size_t>(group.rank())] = error.what();
    }
  });
  return said;
}

class BrokenSlot : public testing::TestWithParam<const char*> {};

TEST_P(BrokenSlot, EndsTheRunOnAllRanksBeforeTheNextCheckpoint) {
  for (const int ranks : {2, 3, 4}) {
    // 100: more steps than there are, so the comparison is the one before a checkpoint.
    for (const char* every : {"1", "100"}) {
      const test::ScratchFolder scratch;
      const auto said = sentences(ranks, GetParam(), every, scratch.file("run"));
      const std::string& first = said.front();
      for (const std::string& other : said) EXPECT_EQ(other, first);
      EXPECT_NE(first.find("after step 4 "), std::string::npos) << first;
      EXPECT_NE(first.find(std::string("optimizer/") + GetParam()), std::string::npos) << first;
      const std::string culprit = "rank " + std::to_string(ranks - 1) + " (";
      EXPECT_NE(first.find(ranks == 2 ? "ranks 0 (" : culprit), std::string::npos) << first;
      EXPECT_TRUE(list_checkpoints(scratch.file("run/checkpoints")).empty());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Adam, BrokenSlot,
                         testing::Values("fc2.bias/exp_avg", "conv1.weight/exp_avg_sq",
                                         "fc1.weight/step"),
                         [](const auto& test) {
                           std::string name = test.param;
                           for (char& c : name) c = c == '.' || c == '/' ? '_' : c;
                           return name;
                         });

TEST(ReplicasThatAreNotCompared, MayComeApartUnnoticed) {
  const test::ScratchFolder scratch;
  for (const std::string& said : sentences(2, "fc2.bias/exp_avg", "0", scratch.file("run"))) {
    EXPECT_EQ(said, "");
  }
  EXPECT_FALSE(list_checkpoints(scratch.file("run/checkpoints")).empty());
}

}  // namespace
}  // namespace lockstep::train
