// ddp.comm_hook = "post_local_sgd" in whole runs of three ranks as threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <lockstep/autograd/variable.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/objects.hpp>
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
#include <mutex>
#include <support/process.hpp>
#include <thread>

namespace lockstep::train {
namespace {

using Overrides = std::vector<std::string>;

const Overrides local_from_step_5{"ddp.comm_hook='post_local_sgd'", "ddp.local_sgd_start_step=5",
                                  "ddp.local_sgd_period=3"};

/// HDF5 and decks: one rank of this process at a time.
std::mutex reading;

/// `use` gets each rank's Trainer; six steps an epoch, four epochs.
template <class Use>
void with_trainers(const Overrides& overrides, const Use& use) {
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<Classification> task;
    RunPlan plan;
    std::string resolved;
    {
      const std::lock_guard lock(reading);
      auto deck = Deck::parse(R"(
        data = {kind = "synthetic", synthetic_samples = 120, synthetic_test_samples = 50, synthetic_image_size = 8}
        model = {kind = "mlp", hidden = [16]}
        train = {epochs = 4, batch_size = 20}
        optimizer = {lr = 0.2, momentum = 0.9}
        checkpoint = {every_steps = 4, keep = 0}
      )",
                              "local_sgd_test", overrides);
      plan = read_run_plan(deck);
      task = std::make_unique<Classification>(deck);
      resolved = deck.resolved();
    }
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
    use(group, trainer, resolved);
  });
}

Outcome run_in(const RunFolder& folder, ProcessGroup& group, Trainer& trainer,
               const std::string& deck) {
  MetricsFile metrics;
  if (group.rank() == 0) metrics = MetricsFile(folder.file("metrics.jsonl"));
  Console console(group.rank());
  return trainer.run(folder, metrics, console, deck);
}

std::string bytes_of(const StateDict& state) {
  std::string bytes;
  for (const auto& entry : state) {
    for (const double value : entry.tensor.to(DType::f64).to_vector<double>()) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  return bytes;
}

bool same_everywhere(ProcessGroup& group, const StateDict& state) {
  const auto all = all_gather_object(group, bytes_of(state));
  return std::ranges::all_of(all, [&](const std::string& one) { return one == all.front(); });
}

TEST(LocalSgd, RanksGoApartAfterTheStartAndMeetEveryPeriodAndForEvaluation) {
  with_trainers(local_from_step_5, [](ProcessGroup& group, Trainer& trainer, const std::string&) {
    trainer.start_epoch(0);
    std::vector<bool> equal;
    for (int step = 0; step < 6; ++step) {
      trainer.step();
      equal.push_back(same_everywhere(group, trainer.model().state_dict()));
    }
    EXPECT_EQ(equal, std::vector<bool>(6, true)) << "step 5 is local, and averaged";
    trainer.start_epoch(1);
    equal.clear();
    for (int step = 6; step < 11; ++step) {
      trainer.step();
      equal.push_back(same_everywhere(group, trainer.model().state_dict()));
    }
    EXPECT_EQ(equal, (std::vector<bool>{false, false, true, false, false}));
    EXPECT_FALSE(same_everywhere(group, trainer.optimizer().state_dict())) << "stays local";
    const double loss = trainer.evaluate().loss;
    EXPECT_TRUE(same_everywhere(group, trainer.model().state_dict()));
    EXPECT_EQ(all_reduce_scalar(group, loss, ReduceOp::max), loss);
    EXPECT_EQ(all_reduce_scalar(group, loss, ReduceOp::min), loss);
  });
}

TEST(LocalSgd, AveragedAfterEveryStepItIsTheRunThatSumsGradients) {
  std::vector<std::vector<float>> ends;
  for (const Overrides& overrides :
       {Overrides{}, Overrides{"ddp.comm_hook='post_local_sgd'", "ddp.local_sgd_start_step=2",
                               "ddp.local_sgd_period=1"}}) {
    with_trainers(overrides, [&](ProcessGroup& group, Trainer& trainer, const std::string&) {
      trainer.start_epoch(0);
      for (int step = 0; step < 6; ++step) trainer.step();
      if (group.rank() != 0) return;
      ends.push_back(trainer.model().parameters()[0].data().to_vector<float>());
    });
  }
  ASSERT_EQ(ends.size(), 2U);
  ASSERT_EQ(ends[0].size(), ends[1].size());
  for (std::size_t i = 0; i < ends[0].size(); ++i)
    EXPECT_LE(std::abs(ends[0][i] - ends[1][i]), 1e-5);
}

TEST(LocalSgd, ResumedRunHasTheSameBits) {
  const test::ScratchFolder scratch;
  const auto train = [&](const std::string& folder, const std::string& from) {
    with_trainers(
        local_from_step_5, [&](ProcessGroup& group, Trainer& trainer, const std::string& deck) {
          if (!from.empty()) {
            const std::lock_guard lock(reading);
            trainer.restore(load_checkpoint(from));
          }
          const auto run_folder = RunFolder::open(group, {.dir = scratch.file(folder)}, false);
          run_in(run_folder, group, trainer, deck);
        });
  };
  const auto checkpoint = [&](const std::string& folder, std::int64_t step) {
    return checkpoint_path(scratch.file(folder) + "/checkpoints", step).string();
  };
  train("whole", "");
  const auto end = load_checkpoint(checkpoint("whole", 24));
  for (const std::int64_t step : {4, 8, 20}) {  // before the start, and twice between averages
    const std::string name = "from_" + std::to_string(step);
    train(name, checkpoint("whole", step));
    const auto resumed = load_checkpoint(checkpoint(name, 24));
    EXPECT_EQ(bytes_of(resumed.model), bytes_of(end.model)) << name;
    EXPECT_EQ(bytes_of(resumed.optimizer), bytes_of(end.optimizer)) << name;
  }
}

// Gradients, and the answers beside them, are each rank's own by then.
TEST(LocalSgd, RankZeroAloneSeesAReasonToStopInTheFirstLocalStep) {
  const test::ScratchFolder scratch;
  with_trainers(local_from_step_5,
                [&](ProcessGroup& group, Trainer& trainer, const std::string& deck) {
                  const auto folder = RunFolder::open(group, {.dir = scratch.file("run")}, false);
                  int steps = 0;
                  // Its gradient is the first final one of a step.
                  const GradHook hook = trainer.model().parameters().back().add_grad_hook([&] {
                    if (++steps != 6 || group.rank() != 0) return;
                    std::ofstream(folder.file("stop")) << "please";
                    while (folder.stop_reason(0.0) != StopReason::stop_file)
                      std::this_thread::sleep_for(std::chrono::milliseconds(10));
                  });
                  const Outcome outcome = run_in(folder, group, trainer, deck);
                  EXPECT_EQ(outcome.stopped, StopReason::stop_file);
                  EXPECT_EQ(outcome.steps, 6);
                });
}

}  // namespace
}  // namespace lockstep::train
