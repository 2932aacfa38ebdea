// Integer samples reach a model unscaled: from a file, by the deck, through each rank's loader, to
// an Embedding.
#include <gtest/gtest.h>
#include <data/hdf5_files.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/model_report.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/model_gradients.hpp>
#include <lockstep/train/trainer.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <support/message_of.hpp>
#include <support/process.hpp>
#include <vector>

namespace lockstep::train {
namespace {

constexpr std::int64_t words = 12, length = 4, width = 5;

class LookUp : public Classification {
 public:
  using Classification::Classification;
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override {
    return std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Embedding>(words, width), std::make_shared<nn::Flatten>(),
        std::make_shared<nn::Linear>(length * width, data().train->classes()),
        std::make_shared<nn::LogSoftmax>()});
  }
};

/// Sentences of four words; the first word determines the class.
std::string sentences(const test::ScratchFolder& folder) {
  const std::string file = folder.file("sentences.h5");
  for (const auto& [group, n] : {std::pair("train/", 240), std::pair("test/", 60)}) {
    std::vector<std::int32_t> tokens;
    std::vector<std::int64_t> classes;
    std::uint32_t random = static_cast<std::uint32_t>(n);
    for (int i = 0; i < n * length; ++i) {
      random = random * 1664525U + 1013904223U;
      tokens.push_back(static_cast<std::int32_t>((random >> 16U) % words));
      if (i % length == 0) classes.push_back(tokens.back() / 4);
    }
    test::write_hdf5(file, group + std::string("features"), {n, length}, tokens);
    test::write_hdf5(file, group + std::string("targets"), {n}, classes);
  }
  return file;
}

Deck deck_for(const std::string& file, bool stream,
              const std::vector<std::string>& overrides = {}) {
  return Deck::parse("data = {kind = \"hdf5\", indices = true, path = \"" + file +
                         "\", stream = " + (stream ? "true" : "false") +
                         "}\n"
                         "train = {batch_size = 20}\n"
                         "optimizer = {lr = 0.5}\n",
                     "indices", overrides);
}

struct Learnt {
  std::vector<float> table;
  double accuracy = 0;
};
std::vector<Learnt> learn(const std::string& file, int ranks, bool stream) {
  std::vector<Learnt> learnt(static_cast<std::size_t>(ranks));
  std::mutex reading;
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_ptr<LookUp> task;
    RunPlan plan;
    {
      const std::lock_guard lock(reading);
      Deck deck = deck_for(file, stream);
      plan = read_run_plan(deck);
      task = std::make_unique<LookUp>(deck);
    }
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), *task, plan);
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
      trainer.start_epoch(epoch);
      for (std::int64_t step = 0; step < trainer.steps_an_epoch(); ++step) trainer.step();
    }
    learnt[static_cast<std::size_t>(group.rank())] = {
        trainer.model().parameters()[0].data().to_vector<float>(),
        trainer.evaluate().metrics.at(0).second};
  });
  return learnt;
}

TEST(Indices, OfAFileTrainAnEmbeddingOnAnyNumberOfRanks) {
  const test::ScratchFolder folder;
  const std::string file = sentences(folder);
  const auto alone = learn(file, 1, false);
  EXPECT_EQ(alone[0].accuracy, 1.0);
  EXPECT_EQ(learn(file, 1, true)[0].table, alone[0].table);
  for (const int ranks : {2, 3}) {
    for (const Learnt& learnt : learn(file, ranks, false)) {
      EXPECT_EQ(learnt.accuracy, 1.0);
      ASSERT_EQ(learnt.table.size(), alone[0].table.size());
      for (std::size_t i = 0; i < learnt.table.size(); ++i)
        EXPECT_NEAR(learnt.table[i], alone[0].table[i], 1e-4);
    }
  }
}

TEST(Indices, AreRefusedForAModelThatDoesNotLookThemUp) {
  const test::ScratchFolder folder;
  Deck deck = deck_for(sentences(folder), false);
  const RunPlan plan = read_run_plan(deck);
  try {
    Trainer::check(Classification(deck), plan);
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("with model.vocabulary = their number"),
              std::string::npos)
        << error.what();
  }
}

TEST(Indices, AreWordsOfATransformerByTheDeckAlone) {
  const test::ScratchFolder folder;
  const std::string file = sentences(folder);
  const auto options = [](const std::string& vocabulary) {
    return std::vector<std::string>{"model.kind=\"transformer\"",
                                    "model.vocabulary=" + vocabulary,
                                    "model.width=16",
                                    "model.depth=1",
                                    "model.heads=2",
                                    "optimizer.kind=\"adamw\"",
                                    "optimizer.lr=0.01"};
  };
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    set_math_threads(1);
    Deck deck = deck_for(file, false, options("12"));
    const RunPlan plan = read_run_plan(deck);
    const Classification task(deck);
    Trainer trainer(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}), task, plan);
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      trainer.start_epoch(epoch);
      for (std::int64_t step = 0; step < trainer.steps_an_epoch(); ++step) trainer.step();
    }
    EXPECT_GE(trainer.evaluate().metrics.at(0).second, 0.95);
    EXPECT_EQ(trainer.model().state_dict().find("token_embed.weight")->tensor.shape(),
              Shape({words, 16}));
  });
  const auto refused = [&](const std::string& vocabulary, std::vector<std::string> more) {
    return test::message_of<InputError>([&] {
      auto all = options(vocabulary);
      all.insert(all.end(), more.begin(), more.end());
      Deck deck = deck_for(file, false, all);
      const RunPlan plan = read_run_plan(deck);
      Trainer::check(Classification(deck), plan);
    });
  };
  EXPECT_NE(refused("12", {"data.indices=false"}).find("but they are numbers"), std::string::npos);
}

TEST(Indices, StayIntegersWhereAModelIsCheckedAndDescribed) {
  const test::ScratchFolder folder;
  Deck deck = deck_for(sentences(folder), false);
  const RunPlan plan = read_run_plan(deck);
  const LookUp task(deck);
  const auto gradients = check_model_gradients(task, 1);
  EXPECT_TRUE(gradients.ok) << gradients.table;
  const std::string report = model_report(task, plan);
  EXPECT_NE(report.find("Embedding"), std::string::npos) << report;
  EXPECT_NE(report.find("[4, 5]"), std::string::npos) << report;
}

}  // namespace
}  // namespace lockstep::train
