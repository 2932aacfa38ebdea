// [loss]: label smoothing and class weights from the deck to the loss, on any number of ranks.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/regression.hpp>
#include <lockstep/train/trainer.hpp>
#include <mutex>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

Deck deck_with(const std::string& loss) {
  const std::string toml = R"([data]
kind = "synthetic"
synthetic_samples = 60
synthetic_test_samples = 20
synthetic_image_size = 8
synthetic_classes = 3
[model]
kind = "mlp"
hidden = [8]
[train]
batch_size = 20
[optimizer]
lr = 0.1
[loss]
)";
  return Deck::parse(toml + loss, "loss.toml");
}

Batch first_samples(const Dataset& data, std::int64_t count) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i);
  Batch batch(data, count);
  data.load(indices, batch);
  return batch;
}

/// The mean over samples of -(1 - e) w[t] p[t] - (e / C) sum_c w[c] p[c], in double.
double expected_loss(const std::vector<float>& log_probabilities,
                     const std::vector<std::int64_t>& targets, double smoothing,
                     const std::vector<double>& weights) {
  const auto classes = weights.size();
  double total = 0;
  for (std::size_t n = 0; n < targets.size(); ++n) {
    for (std::size_t c = 0; c < classes; ++c) {
      const double share = smoothing / static_cast<double>(classes) +
                           (static_cast<std::int64_t>(c) == targets[n] ? 1 - smoothing : 0.0);
      total -= share * weights[c] * static_cast<double>(log_probabilities[n * classes + c]);
    }
  }
  return total / static_cast<double>(targets.size());
}

struct LossCase {
  const char* name;
  std::string deck;
  double smoothing;
  std::vector<double> weights;
};

void PrintTo(const LossCase& c, std::ostream* out) { *out << c.name; }

class ClassLoss : public testing::TestWithParam<LossCase> {};

TEST_P(ClassLoss, OfTheDeckIsTheFormula) {
  const auto& expected = GetParam();
  auto deck = deck_with(expected.deck);
  const Classification task(deck);
  static_cast<void>(read_run_plan(deck));
  deck.check_all_read();
  const Batch batch = first_samples(*task.data().train, 20);
  const Variable output = (*task.make_model())(Variable(batch.inputs()));
  const double loss = task.loss(output, batch).data().item();
  EXPECT_NEAR(
      loss,
      expected_loss(output.data().to_vector<float>(), batch.targets().to_vector<std::int64_t>(),
                    expected.smoothing, expected.weights),
      1e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Decks, ClassLoss,
    testing::Values(
        LossCase{"default", "", 0.0, {1, 1, 1}},
        LossCase{"smoothing", "label_smoothing = 0.25\n", 0.25, {1, 1, 1}},
        LossCase{"weights", "class_weights = [0.5, 1, 4]\n", 0.0, {0.5, 1, 4}},
        LossCase{"both", "label_smoothing = 0.1\nclass_weights = [0.5, 1, 4]\n", 0.1, {0.5, 1, 4}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(ClassWeightsFromCounts, CountTheClassesThatOccur) {
  const test::ScratchFolder folder;
  // 2, 1 and 1 of 4 samples; the labels 2, 3 and 4 do not occur.
  const std::string table = folder.write("t.csv", "x,kind\n1,0\n2,0\n3,1\n4,5\n");
  auto deck = Deck::parse("[data]\nkind = \"csv\"\npath = \"" + table +
                              "\"\ntest_set = false\n[model]\nkind = \"mlp\"\n"
                              "[train]\nbatch_size = 2\n[optimizer]\nlr = 0.1\n"
                              "[loss]\nclass_weights_from_counts = true\n",
                          "t.toml");
  const Classification task(deck);
  const std::string all = deck.resolved();
  EXPECT_NE(all.find("class_weights = [0.6666666666666666, 1.3333333333333333, "),
            std::string::npos)
      << all;
}

/// The first parameter and the test loss after an epoch on `ranks` threads.
std::pair<std::vector<float>, double> train_on_threads(int ranks) {
  std::pair<std::vector<float>, double> result;
  std::mutex reading;
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<Classification> task;
    RunPlan plan;
    {
      const std::lock_guard lock(reading);
      auto deck = deck_with("label_smoothing = 0.1\nclass_weights = [0.25, 1, 8]\n");
      plan = read_run_plan(deck);
      task = std::make_unique<Classification>(deck);
    }
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
    trainer.start_epoch(0);
    for (int step = 0; step < 3; ++step) trainer.step();
    const double loss = trainer.evaluate().loss;
    if (group.rank() != 0) return;
    result = {trainer.model().parameters()[0].data().to_vector<float>(), loss};
  });
  return result;
}

TEST(ClassLossOnRanks, WeightsCountASampleTheSameWhicheverRankHasIt) {
  const auto [alone, alone_loss] = train_on_threads(1);
  for (const int ranks : {2, 3}) {
    const auto [shared, loss] = train_on_threads(ranks);
    EXPECT_NEAR(loss, alone_loss, 1e-5) << ranks << " ranks";
    ASSERT_EQ(shared.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i)
      ASSERT_NEAR(shared[i], alone[i], 1e-5) << ranks << " ranks, element " << i;
  }
}

template <class TaskType>
std::string refusal(const std::string& loss) {
  auto deck = deck_with(loss);
  try {
    const TaskType task(deck);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ClassLossRefusal, NamesFileLineAndRemedy) {
  const auto expect_says = [](const std::string& text, const std::vector<std::string>& parts) {
    for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect_says(refusal<Classification>("label_smoothing = 1.0\n"),
              {"loss.toml:15", "loss.label_smoothing", "1.0", "at most 0.99"});
  expect_says(refusal<Classification>("label_smoothing = -0.1\n"),
              {"loss.toml:15", "loss.label_smoothing", "at least 0"});
  expect_says(refusal<Classification>("\nclass_weights = [1, 0, 1]\n"),
              {"loss.toml:16", "loss.class_weights", "above 0"});
  expect_says(refusal<Classification>("class_weights = [1, 2]\n"),
              {"loss.toml:15", "loss.class_weights", "2 entries", "3 classes"});
  expect_says(refusal<Regression>("class_weights = [1, 2, 3]\n"),
              {"loss.toml:15", "loss.class_weights", "fits values", "Remove it"});
  expect_says(refusal<Regression>("label_smoothing = 0.1\n"),
              {"loss.toml:15", "loss.label_smoothing", "fits values"});
}

}  // namespace
}  // namespace lockstep::train
