// Runs resumed from a checkpoint, on ranks as threads.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/base/log.hpp>
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
#include <lockstep/train/run/resume.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

using Overrides = std::vector<std::string>;

/// HDF5 and decks: one rank of this process at a time.
std::mutex one_reads;

/// `use` gets each rank's Trainer; six steps an epoch, three epochs, compressed from step 2 on.
template <class Use>
void with_power_sgd(int ranks, const Overrides& overrides, const Use& use) {
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<Classification> task;
    RunPlan plan;
    std::string resolved;
    {
      const std::lock_guard lock(one_reads);
      auto deck = Deck::parse(R"(
        data = {kind = "synthetic", synthetic_samples = 120, synthetic_test_samples = 50, synthetic_image_size = 8}
        model = {kind = "mlp", hidden = [16, 12]}
        train = {epochs = 3, batch_size = 20}
        optimizer = {lr = 0.2, momentum = 0.9}
        checkpoint = {every_steps = 4, keep = 0}
        ddp = {comm_hook = "power_sgd", power_sgd_start_step = 2}
      )",
                              "resume_test", overrides);
      plan = read_run_plan(deck);
      task = std::make_unique<Classification>(deck);
      resolved = deck.resolved();
    }
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
    use(group, trainer, resolved);
  });
}

std::string raw_bytes(const StateDict& state) {
  std::string bytes;
  for (const auto& entry : state) {
    const std::size_t at = bytes.size();
    bytes.resize(at + entry.tensor.bytes());
    std::memcpy(bytes.data() + at, entry.tensor.data(), entry.tensor.bytes());
  }
  return bytes;
}

class PowerSgdRun : public testing::Test {
 protected:
  /// Log messages until a Console takes over.
  void listen() {
    set_log_sink([this](LogLevel, std::string_view text) {
      const std::lock_guard lock(log_mutex_);
      log_ += std::string(text) + '\n';
    });
  }
  ~PowerSgdRun() override { set_log_sink({}); }

  /// To the end, from the checkpoint `from` if given; loaded in place, as the programs do, or from
  /// whole tensors on each rank.
  void train(int ranks, const std::string& folder, const std::string& from, bool in_place,
             const Overrides& overrides = {}) {
    listen();
    with_power_sgd(
        ranks, overrides, [&](ProcessGroup& group, Trainer& trainer, const std::string& deck) {
          if (!from.empty() && in_place) {
            const auto contents =
                load_checkpoint_in_place(group, from, trainer.state_dict(),
                                         trainer.slots_to_load(CheckpointFile(from).manifest()));
            const std::lock_guard lock(one_reads);
            trainer.restore(contents);
          } else if (!from.empty()) {
            const std::lock_guard lock(one_reads);
            trainer.restore(load_checkpoint(from));
          }
          const auto run_folder = RunFolder::open(group, {.dir = scratch_.file(folder)}, false);
          MetricsFile metrics;
          if (group.rank() == 0) metrics = MetricsFile(run_folder.file("metrics.jsonl"));
          Console console(group.rank());
          static_cast<void>(trainer.run(run_folder, metrics, console, deck));
        });
  }
  [[nodiscard]] std::string checkpoint(const std::string& folder, std::int64_t step) const {
    return checkpoint_path(scratch_.file(folder) + "/checkpoints", step).string();
  }
  [[nodiscard]] std::size_t said(const std::string& part) const {
    std::size_t count = 0;
    for (std::size_t at = log_.find(part); at != std::string::npos; at = log_.find(part, at + 1))
      ++count;
    return count;
  }

  test::ScratchFolder scratch_;
  std::mutex log_mutex_;
  std::string log_;
};

/// Over the ranks, [rows, columns].
Tensor sum_of_errors(const CheckpointContents& contents, const std::string& parameter) {
  const Tensor& errors = contents.optimizer.at(parameter + "/comm_hook_error");
  Tensor sum = Tensor::zeros(errors.slice(0, 1).shape(), DType::f64);
  std::vector<double> total(static_cast<std::size_t>(sum.numel()), 0.0);
  for (std::int64_t rank = 0; rank < errors.size(0); ++rank) {
    const auto of_rank = errors.slice(rank, rank + 1).to(DType::f64).to_vector<double>();
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += of_rank[i];
  }
  return Tensor::from(total, sum.shape());
}

TEST_F(PowerSgdRun, ResumedRunHasTheSameBits) {
  train(3, "whole", "", false);
  const auto end = load_checkpoint(checkpoint("whole", 18));
  const auto errors = end.optimizer.at("fc1.weight/comm_hook_error");
  EXPECT_EQ(errors.size(0), 3);
  EXPECT_GT(std::abs(errors.slice(2, 3).to(DType::f64).to_vector<double>()[0]), 0.0);
  for (const std::int64_t step : {4, 8, 12}) {
    for (const bool in_place : {true, false}) {
      const std::string name = fmt::format("from_{}_{}", step, in_place);
      train(3, name, checkpoint("whole", step), in_place);
      const auto resumed = load_checkpoint(checkpoint(name, 18));
      EXPECT_TRUE(raw_bytes(resumed.model) == raw_bytes(end.model)) << name;
      EXPECT_TRUE(raw_bytes(resumed.optimizer) == raw_bytes(end.optimizer)) << name;
    }
  }
  EXPECT_EQ(said("PowerSGD"), 0U) << log_;
}

TEST_F(PowerSgdRun, OnAnotherNumberOfRanksTheSumOfTheErrorsStaysAndIsSaidOnce) {
  train(3, "whole", "", false);
  const auto saved = load_checkpoint(checkpoint("whole", 18));
  const Tensor before = sum_of_errors(saved, "fc1.weight");
  // Nothing is left to do: the loaded state is saved.
  for (const int ranks : {1, 2, 4}) {
    for (const bool in_place : {true, false}) {
      log_.clear();
      const std::string name = fmt::format("on_{}_{}", ranks, in_place);
      train(ranks, name, checkpoint("whole", 18), in_place);
      const auto resumed = load_checkpoint(checkpoint(name, 18));
      EXPECT_EQ(resumed.optimizer.at("fc1.weight/comm_hook_error").size(0), ranks);
      const auto sum = sum_of_errors(resumed, "fc1.weight").to_vector<double>();
      const auto expected = before.to_vector<double>();
      for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], expected[i], 1e-6);
      EXPECT_EQ(said(fmt::format("PowerSGD's errors were saved by 3 ranks and are restored on {}",
                                 ranks)),
                1U)
          << log_;
    }
  }
}

TEST_F(PowerSgdRun, UnfitHookStateIsLeftOutWithASentence) {
  train(2, "whole", "", false);
  train(2, "other_rank", checkpoint("whole", 8), true, {"ddp.power_sgd_rank=2"});
  EXPECT_EQ(said("PowerSGD restarts with errors of zero"), 1U) << log_;
  log_.clear();
  train(2, "other_hook", checkpoint("whole", 8), true, {"ddp.comm_hook='all_reduce'"});
  EXPECT_EQ(said("the state of another communication hook is left out"), 1U) << log_;
  log_.clear();
  train(2, "no_state", checkpoint("other_hook", 12), true);
  EXPECT_EQ(said("PowerSGD restarts with errors of zero"), 1U) << log_;
}

TEST(StartEpoch, LeavesALayerThatWasPutIntoEvaluationModeAsItIs) {
  with_power_sgd(1, {}, [&](ProcessGroup&, Trainer& trainer, const std::string&) {
    nn::Module& frozen = *trainer.model().children().front().second;
    frozen.eval();
    for (const std::int64_t epoch : {0, 1}) {
      trainer.start_epoch(epoch);
      EXPECT_TRUE(trainer.model().is_training());
      EXPECT_FALSE(frozen.is_training());
      trainer.step();
      static_cast<void>(trainer.evaluate());
    }
    trainer.model().eval();
    trainer.start_epoch(0);
    EXPECT_TRUE(frozen.is_training()) << "all of a model that was not training";
  });
}

/// The lr of a row of metrics.jsonl.
std::vector<double> rates_of_epochs(const std::filesystem::path& metrics) {
  std::vector<double> rates;
  const MetricsFile file(metrics, metrics, 1000, 1000);
  for (const MetricsRow& row : file.rows()) {
    if (row.kind == "epoch") rates.push_back(row.lr);
  }
  return rates;
}

// The resumed run writes the epoch's row, without having made a step of it.
TEST(ResumedRun, RowOfAnEpochStoppedAtItsEndHasItsLearningRate) {
  const test::ScratchFolder scratch;
  const Overrides falls{"ddp.comm_hook='all_reduce'", "schedule.kind='step'",
                        "schedule.step_size=1", "schedule.gamma=0.5"};
  const auto run = [&](const std::string& name, bool stops, const std::string& from) {
    with_power_sgd(1, falls, [&](ProcessGroup& group, Trainer& trainer, const std::string& deck) {
      if (!from.empty()) trainer.restore(load_checkpoint(from));
      const auto folder =
          RunFolder::open(group, {.dir = scratch.file(name)}, /*resume=*/!from.empty());
      int steps = 0;
      const GradHook hook = trainer.model().parameters().back().add_grad_hook([&] {
        if (!stops || ++steps != 12) return;
        std::ofstream(folder.file("stop")) << "please";
        while (folder.stop_reason(0.0) != StopReason::stop_file)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
      });
      const std::filesystem::path metrics = folder.file("metrics.jsonl");
      MetricsFile file =
          from.empty() ? MetricsFile(metrics)
                       : MetricsFile(metrics, metrics, trainer.state().step, trainer.state().epoch);
      Console console(0);
      const Outcome outcome = trainer.run(folder, file, console, deck);
      EXPECT_EQ(outcome.stopped, stops ? StopReason::stop_file : StopReason::none);
      EXPECT_EQ(outcome.epochs, stops ? 1 : 3) << "the second was trained, and not finished";
    });
    return scratch.file(name);
  };
  const std::filesystem::path whole = run("whole", false, "");
  const std::filesystem::path stopped = run("stopped", true, "");
  std::filesystem::remove(stopped / "stop");
  run("stopped", false, checkpoint_path(stopped / "checkpoints", 12).string());
  EXPECT_EQ(rates_of_epochs(stopped / "metrics.jsonl"), (std::vector<double>{0.2, 0.1, 0.05}));
  EXPECT_EQ(rates_of_epochs(whole / "metrics.jsonl"), (std::vector<double>{0.2, 0.1, 0.05}));
}

void expect_says(const std::string& text, const std::string& words) {
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(Resume, TakesNoDataThatGiveTheModelsNumbersAnotherMeaning) {
  const auto said = [](const std::string& before, const std::string& now) {
    CheckpointContents checkpoint;
    checkpoint.deck = "[data]\n" + before + "\n[model]\nstd = 3\n";
    return test::message_of<InputError>(
        [&] { check_same_samples(checkpoint, "[data]\n" + now + "\n[model]\nstd = 4\n"); });
  };
  const std::string cats = "class_names = [\"cat\", \"dog\"]";
  EXPECT_EQ(said(cats, cats), "nothing was thrown");
  EXPECT_EQ(said("", cats), "nothing was thrown") << "an older Lockstep wrote none";
  expect_says(said(cats, "class_names = [\"dog\", \"kitty\"]"),
              "data.class_names is [\"dog\", \"kitty\"], but the checkpoint's model was trained "
              "with [\"cat\", \"dog\"]");
  EXPECT_EQ(said("mean = [0.5, 2e-05]", "mean = [0.50000000000000011, 2.0000000000000002e-05]"),
            "nothing was thrown")
      << "as another processor measures it";
  expect_says(said("mean = [0.5, 1.0]", "mean = [0.5]"), "data.mean is [0.5], but");
  expect_says(said("mean = [0.5, 1.0]", "mean = [0.5, 1.01]"), "data.mean is [0.5, 1.01], but");
  for (const std::string key : {"mean", "std", "target_mean", "target_std"})
    expect_says(said(key + " = [0.5]", key + " = [0.75]"), "data." + key + " is [0.75], but");
}

TEST(Resume, InTheMiddleOfAnEpochTakesNoOtherImages) {
  CheckpointContents checkpoint;
  checkpoint.deck = "[data]\nimage_listing = \"a\"\n";
  EXPECT_NO_THROW(check_same_samples(checkpoint, "[data]\nimage_listing = \"b\"\n"));
  checkpoint.train.position = 3;
  expect_says(test::message_of<InputError>(
                  [&] { check_same_samples(checkpoint, "[data]\nimage_listing = \"b\"\n"); }),
              "data.image_listing");
}

}  // namespace
}  // namespace lockstep::train
