// Training parts of a program's own: their moments, and their state in checkpoints.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/task.hpp>
#include <lockstep/train/trainer.hpp>
#include <support/message_of.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

using Overrides = std::vector<std::string>;

/// HDF5 and decks: one rank of this process at a time.
std::mutex one_reads_parts;

/// Three steps per epoch, two epochs; a checkpoint after each epoch.
struct PartRun {
  RunPlan plan;
  std::unique_ptr<Classification> task;
  std::string deck;

  explicit PartRun(const Overrides& overrides = {}) {
    const std::lock_guard lock(one_reads_parts);
    auto read = Deck::parse(R"(
      data = {kind = "synthetic", synthetic_samples = 60, synthetic_test_samples = 20, synthetic_image_size = 8}
      model = {kind = "mlp", hidden = [8]}
      train = {epochs = 2, batch_size = 20}
      optimizer = {lr = 0.1, momentum = 0.9}
      checkpoint = {keep = 0, async = false}
    )",
                            "training_part_test", overrides);
    plan = read_run_plan(read);
    task = std::make_unique<Classification>(read);
    deck = read.resolved();
  }
};

/// Records its calls and their arguments.
class Diary : public TrainingPart {
 public:
  [[nodiscard]] std::string name() const override { return "diary"; }
  void check(const Task& /*task*/, const RunPlan& plan) const override {
    if (plan.train.epochs > 50) throw InputError("the diary has 50 pages");
  }
  void begin(const Training& training) override {
    moments += "begin";
    sum = Tensor::zeros({2}, DType::f32);
    EXPECT_GT(training.model.parameter_count(), 0);
    EXPECT_EQ(training.folder, nullptr);
  }
  void start_run(const Training& training) override {
    moments += " start";
    EXPECT_NE(training.folder, nullptr);
  }
  void before_step(const Training& training) override {
    moments += " [" + std::to_string(training.state.step);
    EXPECT_EQ(training.optimizer.lr(), training.plan.optimizer.lr());
  }
  void after_update(const Training& /*training*/, StepResult& /*step*/) override {
    moments += " u";
  }
  void after_step(const Training& training, const StepResult& step) override {
    moments += " " + std::to_string(training.state.step) + "]";
    losses += step.loss_sum;
    static_cast<float*>(sum.data())[0] += 0.25F;
    EXPECT_EQ(step.times.samples, 20);
    EXPECT_FALSE(step.not_finite);
  }
  void after_epoch(const Training& training) override {
    moments += " epoch" + std::to_string(training.state.epoch);
  }
  void before_evaluation(const Training& /*training*/) override { moments += " ("; }
  void after_evaluation(const Training& /*training*/) noexcept override { moments += ")"; }
  void evaluated(const Training& /*training*/, const Evaluation& found) override {
    moments += " evaluated";
    last_loss = found.loss;
  }
  void before_save(const Training& /*training*/) override { moments += " saves"; }
  void save(PartState& state) const override {
    state.set_number("losses", losses);
    state.set_count("pages", pages);
    state.set_tensor("sum", sum);
  }
  void restore(const Training& training, PartState& state) override {
    moments += " restore" + std::to_string(training.state.step);
    losses = state.number("losses").value_or(-1);
    pages = state.count("pages").value_or(-1);
    if (const Tensor saved = state.tensor("sum"); saved.defined()) sum.copy_from(saved);
  }
  void end_run(const Training& /*training*/, Outcome& outcome) override {
    moments += " end";
    EXPECT_EQ(outcome.steps, 6);
    EXPECT_EQ(outcome.test->loss, last_loss);
  }

  std::string moments;
  double losses = 0, last_loss = 0;
  std::int64_t pages = 7;
  Tensor sum;
};

std::vector<std::vector<double>> numbers_in(const StateDict& state) {
  std::vector<std::vector<double>> values;
  for (const auto& entry : state) values.push_back(entry.tensor.to(DType::f64).to_vector<double>());
  return values;
}

class PartsInRuns : public testing::Test {
 protected:
  /// Trains to the end in `folder`, with one part per rank; from a checkpoint, if given.
  void train(const std::string& folder, const std::vector<TrainingParts>& parts,
             const Overrides& overrides = {}, const std::string& from = "") {
    run_ranks_as_threads(static_cast<int>(parts.size()), [&](ProcessGroup& group) {
      set_math_threads(1);
      const PartRun run(overrides);
      Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *run.task,
                      run.plan, {}, parts[static_cast<std::size_t>(group.rank())]);
      if (!from.empty()) {
        const std::lock_guard lock(one_reads_parts);
        trainer.restore(load_checkpoint(from));
      }
      const auto run_folder = RunFolder::open(group, {.dir = scratch_.file(folder)}, false);
      MetricsFile metrics;
      if (group.rank() == 0) metrics = MetricsFile(run_folder.file("metrics.jsonl"));
      Console console(group.rank());
      static_cast<void>(trainer.run(run_folder, metrics, console, run.deck));
    });
  }
  [[nodiscard]] std::string checkpoint(const std::string& folder, std::int64_t step) const {
    return checkpoint_path(scratch_.file(folder) + "/checkpoints", step).string();
  }

  test::ScratchFolder scratch_;
};

TEST_F(PartsInRuns, MomentsComeInTheOrderOfTheTraining) {
  const auto diary = std::make_shared<Diary>();
  train("run", {{diary}});
  EXPECT_EQ(diary->moments,
            "begin start"
            " [0 u 1] [1 u 2] [2 u 3] epoch1 () evaluated saves"
            " [3 u 4] [4 u 5] [5 u 6] epoch2 () evaluated saves end");
  const auto resumed = std::make_shared<Diary>();
  train("resumed", {{resumed}}, {}, checkpoint("run", 3));
  EXPECT_EQ(resumed->moments,
            "begin restore3 start [3 u 4] [4 u 5] [5 u 6] epoch2 () evaluated saves end");
}

TEST_F(PartsInRuns, StateGoesOnBitForBitOnAnyNumberOfRanks) {
  const auto whole = std::make_shared<Diary>();
  whole->pages = std::int64_t{1} << 60;
  train("whole", {{whole}});
  const CheckpointContents saved = load_checkpoint(checkpoint("whole", 3));
  EXPECT_EQ(saved.optimizer.at("training_parts/diary/sum").to_vector<float>(),
            (std::vector<float>{0.75F, 0.0F}));
  EXPECT_NE(std::ranges::find(saved.train.counts, std::pair<std::string, std::int64_t>(
                                                      "part.diary.pages", std::int64_t{1} << 60)),
            saved.train.counts.end());
  const auto resumed = std::make_shared<Diary>(), other = std::make_shared<Diary>();
  train("resumed", {{resumed}}, {}, checkpoint("whole", 3));
  EXPECT_EQ(resumed->losses, whole->losses);
  EXPECT_EQ(resumed->pages, whole->pages);
  EXPECT_EQ(resumed->sum.to_vector<float>(), (std::vector<float>{1.5F, 0.0F}));
  train("two", {{other}, {std::make_shared<Diary>()}}, {}, checkpoint("whole", 3));
  EXPECT_EQ(other->pages, whole->pages);
  EXPECT_EQ(load_checkpoint(checkpoint("two", 6))
                .optimizer.at("training_parts/diary/sum")
                .to_vector<float>(),
            (std::vector<float>{1.5F, 0.0F}));
}

TEST_F(PartsInRuns, CheckpointsOfRunsWithAndWithoutThePartFitEachOther) {
  train("with", {{std::make_shared<Diary>()}});
  train("without", {{}});
  const auto end = [&](const std::string& folder) {
    return load_checkpoint(checkpoint(folder, 6)).model.at("fc1.weight").to_vector<float>();
  };
  EXPECT_EQ(end("with"), end("without"));
  train("gone", {{}}, {}, checkpoint("with", 3));
  EXPECT_EQ(end("gone"), end("with"));
  for (const auto& entry : load_checkpoint(checkpoint("gone", 6)).optimizer)
    EXPECT_EQ(entry.name.find("training_parts"), std::string::npos);
  const auto late = std::make_shared<Diary>();
  train("late", {{late}}, {}, checkpoint("without", 3));
  EXPECT_EQ(end("late"), end("with"));
  EXPECT_EQ(late->pages, -1) << "there was nothing of it";
}

TEST_F(PartsInRuns, OneThatIsOverEndsTheTraining) {
  struct Once : TrainingPart {
    [[nodiscard]] std::string name() const override { return "once"; }
    void evaluated(const Training& /*training*/, const Evaluation& /*found*/) override {
      over = true;
    }
    [[nodiscard]] bool is_over() const override { return over; }
    bool over = false;
  };
  train("run", {{std::make_shared<Once>()}, {std::make_shared<Once>()}});
  EXPECT_EQ(list_checkpoints(scratch_.file("run/checkpoints")).size(), 1U);
  EXPECT_EQ(load_checkpoint(checkpoint("run", 3)).train.epoch, 1);
}

/// Asks for a stop when the evaluation after `epoch` begins, and counts those that end.
struct StopsEvaluation : TrainingPart {
  explicit StopsEvaluation(std::int64_t its_epoch) : epoch(its_epoch) {}
  [[nodiscard]] std::string name() const override { return "stops_evaluation"; }
  void before_evaluation(const Training& training) override {
    // Rank 0 alone looks for the file.
    if (training.state.epoch != epoch || training.group->rank() != 0) return;
    std::ofstream(training.folder->file("stop")) << '\n';
    const auto start = Clock::now();
    while (training.folder->stop_reason(0) == StopReason::none && seconds_since(start) < 30)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void evaluated(const Training& /*training*/, const Evaluation& /*found*/) override { ++count; }
  void end_run(const Training& /*training*/, Outcome& outcome) override { end = outcome; }

  std::int64_t epoch, count = 0;
  Outcome end;
};

TEST_F(PartsInRuns, AnEvaluationStopsBetweenBatchesAndIsMadeByTheResumedRun) {
  const Overrides options{"eval.batch_size=2", "train.early_stop_patience=5",
                          "averaging.kind='ema'", "schedule.kind='plateau'",
                          "checkpoint.best='loss'"};
  const auto parts = [](std::int64_t epoch) {
    std::vector<std::shared_ptr<StopsEvaluation>> of_ranks;
    for (int rank = 0; rank < 3; ++rank)  // 10 batches: 4, 3, 3
      of_ranks.push_back(std::make_shared<StopsEvaluation>(epoch));
    return of_ranks;
  };
  const auto lists = [](const auto& of_ranks) {
    std::vector<TrainingParts> result;
    for (const auto& part : of_ranks) result.push_back({part});
    return result;
  };
  train("whole", lists(parts(-1)), options);
  const CheckpointContents whole = load_checkpoint(checkpoint("whole", 6));
  for (const std::int64_t epoch : {1, 2}) {
    const std::string number = std::to_string(epoch);
    const auto stopped = parts(epoch), resumed = parts(-1);
    train("stopped" + number, lists(stopped), options);
    EXPECT_EQ(stopped[0]->end.stopped, StopReason::stop_file);
    EXPECT_EQ(stopped[2]->count, epoch - 1);
    const std::string left = checkpoint("stopped" + number, 3 * epoch);
    EXPECT_EQ(load_checkpoint(left).train.epoch, epoch);
    EXPECT_TRUE(load_checkpoint(left).train.metrics.empty());

    train("resumed" + number, lists(resumed), options, left);
    EXPECT_EQ(resumed[2]->count, 3 - epoch);
    ASSERT_TRUE(resumed[1]->end.test);
    const CheckpointContents end = load_checkpoint(checkpoint("resumed" + number, 6));
    EXPECT_EQ(end.train, whole.train);
    EXPECT_EQ(numbers_in(end.model), numbers_in(whole.model));
    EXPECT_EQ(numbers_in(end.optimizer), numbers_in(whole.optimizer));
    if (epoch == 2) continue;  // its folder has the second epoch alone to choose from
    const auto best = [&](const std::string& folder) {
      return load_checkpoint(best_checkpoint(scratch_.file(folder) + "/checkpoints")).train;
    };
    EXPECT_EQ(best("resumed" + number), best("whole"));
  }
}

// Names in older checkpoints, which older programs look for.
TEST_F(PartsInRuns, LibraryPartsKeepTheirStateUnderTheNamesOfTheFormat) {
  const Overrides all{"train.early_stop_patience=5", "averaging.kind='ema'",
                      "schedule.kind='plateau'", "train.precision='fp16'"};
  train("whole", {{}}, all);
  const CheckpointContents end = load_checkpoint(checkpoint("whole", 6));
  const auto names = [](const auto& values) {
    std::vector<std::string> found;
    for (const auto& value : values) found.push_back(value.first);
    std::ranges::sort(found);
    return found;
  };
  EXPECT_EQ(names(end.train.sums),
            (std::vector<std::string>{"early_stop_best", "grad_scale", "loss.0", "plateau_best",
                                      "plateau_lr"}));
  EXPECT_EQ(names(end.train.counts),
            (std::vector<std::string>{"batch_size", "early_stop_epochs", "grad_scale_growth",
                                      "n_averaged", "plateau_bad_epochs", "plateau_cooldown",
                                      "samples"}));
  EXPECT_TRUE(end.optimizer.find("fc1.weight/trained"));
  train("resumed", {{}}, all, checkpoint("whole", 3));
  const CheckpointContents resumed = load_checkpoint(checkpoint("resumed", 6));
  EXPECT_EQ(resumed.train, end.train);
  for (const auto& entry : end.optimizer) {
    EXPECT_EQ(resumed.optimizer.at(entry.name).to(DType::f64).to_vector<double>(),
              entry.tensor.to(DType::f64).to_vector<double>())
        << entry.name;
  }
}

TEST(Parts, WhatDoesNotFitIsASentence) {
  const auto sentence = [](const TrainingParts& parts, const Overrides& overrides = {}) {
    const PartRun run(overrides);
    return test::message_of<InputError>([&] { Trainer::check(*run.task, run.plan, 1, parts); });
  };
  struct Named : TrainingPart {
    explicit Named(std::string its_name) : its_name_(std::move(its_name)) {}
    [[nodiscard]] std::string name() const override { return its_name_; }
    std::string its_name_;
  };
  const auto diary = std::make_shared<Diary>();
  EXPECT_EQ(sentence({diary}, {"train.epochs=60"}), "the diary has 50 pages");
  EXPECT_NE(
      sentence({diary, std::make_shared<Diary>()}).find("two training parts are called diary"),
      std::string::npos);
  EXPECT_NE(sentence({nullptr}).find("null"), std::string::npos);
  for (const char* name : {"", "a.b", "a/b", "a b"}) {
    EXPECT_NE(sentence({std::make_shared<Named>(name)}).find("cannot be the name"),
              std::string::npos)
        << name;
  }
}

TEST(Parts, ANameThatIsTakenIsRefused) {
  CheckpointContents contents;
  PartState state(contents, "mine");
  state.set_number("a", 0.1);
  state.set_count("a", 2);
  state.set_tensor("a", Tensor::zeros({1}, DType::f64));
  EXPECT_EQ(contents.train.sums.front().first, "part.mine.a");
  EXPECT_NE(test::message_of<Error>([&] { state.set_number("a", 1); }).find("part.mine.a"),
            std::string::npos);
  EXPECT_NE(test::message_of<Error>([&] { state.set_count("a", 1); }).find("part.mine.a"),
            std::string::npos);
  EXPECT_EQ(PartState(contents, "other").number("a"), std::nullopt);
  EXPECT_EQ(PartState(contents, "other").count("a"), std::nullopt);
  EXPECT_FALSE(PartState(contents, "other").tensor("a").defined());
}

}  // namespace
}  // namespace lockstep::train
