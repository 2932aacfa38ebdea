// train.zero: ranks share out optimizer, gradients and parameters, and nothing else changes.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

std::string deck_text(int zero, const std::string& more = "") {
  return R"(
    model = {kind = "mlp", hidden = [24, 13]}
    data = {kind = "synthetic", synthetic_samples = 100, synthetic_test_samples = 30, synthetic_image_size = 16}
    train = {epochs = 1, batch_size = 20, zero = )" +
         std::to_string(zero) + (more.empty() ? "" : ", " + more) + R"(}
    checkpoint = {async = false}
  )";
}

const char* const adamw = "\noptimizer = {kind = \"adamw\", lr = 0.01, clip_norm = 0.5}\n";

/// Calls body(trainer, deck) on `ranks` threads.
template <class Body>
void with_trainers(int ranks, int zero, const Body& body) {
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    auto deck = Deck::parse(deck_text(zero) + adamw, "zero_test");
    const RunPlan plan = read_run_plan(deck);
    const Classification task(deck);
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), task, plan);
    body(group, trainer, deck);
  });
}

/// The checkpoint at the end of an epoch.
std::filesystem::path trained(int ranks, int zero, const std::string& folder) {
  Console console(0);
  console.set_level(LogLevel::error);
  with_trainers(ranks, zero, [&](ProcessGroup& group, Trainer& trainer, Deck& deck) {
    const auto run_folder = RunFolder::open(group, {.dir = folder}, false);
    MetricsFile metrics;
    if (group.rank() == 0) metrics = MetricsFile(run_folder.file("metrics.jsonl"));
    trainer.run(run_folder, metrics, console, deck.resolved());
  });
  const auto files = list_checkpoints(folder + "/checkpoints");
  EXPECT_EQ(files.size(), 1U);
  return files.front();
}

void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor, placement] : a) {
    ASSERT_NE(b.find(name), nullptr) << name;
    EXPECT_EQ(tensor.shape(), b.at(name).shape()) << name;
    EXPECT_EQ(tensor.to(DType::f64).to_vector<double>(),
              b.at(name).to(DType::f64).to_vector<double>())
        << name;
  }
}

void expect_near(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor, placement] : a) {
    ASSERT_NE(b.find(name), nullptr) << name;
    ASSERT_EQ(tensor.shape(), b.at(name).shape()) << name;
    const auto x = tensor.to(DType::f64).to_vector<double>(),
               y = b.at(name).to(DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(x[i], y[i], 1e-5 + 1e-4 * std::abs(x[i])) << name << " at " << i;
  }
}

TEST(Zero, StageOneHasTheBitsOfRunsAndCheckpointsWithout) {
  for (const int ranks : {1, 2, 3}) {
    const test::ScratchFolder scratch;
    const auto shared = trained(ranks, 1, scratch.file("shared"));
    const auto whole = trained(ranks, 0, scratch.file("whole"));
    const CheckpointContents a = load_checkpoint(shared), b = load_checkpoint(whole);
    expect_same(a.model, b.model);
    expect_same(a.optimizer, b.optimizer);
  }
}

TEST(Zero, StagesTwoAndThreeHaveOneCheckpointWhichIsThatWithoutUpToRounding) {
  for (const int ranks : {1, 2, 3}) {
    const test::ScratchFolder scratch;
    const CheckpointContents whole = load_checkpoint(trained(ranks, 0, scratch.file("0"))),
                             two = load_checkpoint(trained(ranks, 2, scratch.file("2"))),
                             three = load_checkpoint(trained(ranks, 3, scratch.file("3")));
    expect_same(two.model, three.model);
    expect_same(two.optimizer, three.optimizer);
    expect_near(whole.model, three.model);
    expect_near(whole.optimizer, three.optimizer);
  }
}

TEST(Zero, AnyStageOnAnyNumberOfRanksGoesOnFromAnother) {
  for (const int from : {1, 3}) {
    const test::ScratchFolder scratch;
    const auto file = trained(2, from, scratch.file("run"));
    double without = 0;
    for (const int zero : {0, 1, 2, 3}) {
      with_trainers(3, zero, [&](ProcessGroup& group, Trainer& trainer, Deck&) {
        const CheckpointFile opened(file);
        trainer.restore(load_checkpoint(group, file, trainer.state_dict(),
                                        trainer.slots_to_load(opened.manifest())));
        trainer.start_epoch(1);
        for (int step = 0; step < 3; ++step) trainer.step();
        const double loss = trainer.evaluate().loss;
        if (group.rank() != 0) return;
        if (zero == 0) without = loss;
        EXPECT_NEAR(loss, without, 1e-5 * without) << "stage " << from << " to " << zero;
      });
    }
  }
}

TEST(Zero, EvaluationsOfMoreRanksThanBatchesEnd) {
  with_trainers(3, 3, [&](ProcessGroup&, Trainer& trainer, Deck&) {
    trainer.start_epoch(0);
    EXPECT_GT(trainer.evaluate().loss, 0.0);
  });
}

TEST(Zero, OptionsThatItDoesNotSupportAreRefused) {
  const auto refusal = [](const std::string& train, const std::string& tables, int zero = 1) {
    auto deck = Deck::parse(deck_text(zero, train) + tables, "zero_test");
    const RunPlan plan = read_run_plan(deck);
    const Classification task(deck);
    try {
      Trainer::check(task, plan, 2);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("", adamw), "");
  EXPECT_NE(refusal("", "\noptimizer = {kind = \"lars\"}\n").find("whole parameters"),
            std::string::npos);
  EXPECT_NE(refusal("precision = \"fp16\"", "").find("train.precision = \"fp16\" does not support"),
            std::string::npos);
  EXPECT_EQ(refusal("", "\nmesh = {tp = 2}\n"), "");
  EXPECT_NE(refusal("check_replicas_every = 1", "").find("check_replicas_every"),
            std::string::npos);
  EXPECT_NE(refusal("", "\nddp = {comm_hook = \"post_local_sgd\"}\n").find("post_local_sgd"),
            std::string::npos);
  EXPECT_NE(refusal("", "\nmesh = {fsdp = 2}\n").find("train.zero = 3"), std::string::npos);
  EXPECT_EQ(refusal("precision = \"fp16\"", "\nmesh = {fsdp = 2}\n", 3), "");
  EXPECT_NE(refusal("", "\nddp = {comm_hook = \"power_sgd\"}\n", 3).find("power_sgd"),
            std::string::npos);
  EXPECT_NE(refusal("reduction = \"invariant\"", "", 2).find("invariant"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
