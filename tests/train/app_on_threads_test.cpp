// A whole program with ranks as threads, within this one: for ThreadSanitizer. For users' view see
// tests/apps/ranks_as_threads_test.cpp.
#include <gtest/gtest.h>

#include <lockstep/base/rank.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/train/app.hpp>
#include <lockstep/train/task/classification.hpp>
#include <support/process.hpp>
#include <vector>

namespace lockstep::train {
namespace {

/// Fails on rank 1 in its third step if requested.
class FragileTask : public Classification {
 public:
  FragileTask(Deck& deck, bool fails) : Classification(deck), fails_(fails) {}

  Variable loss(const Variable& output, const Batch& batch) const override {
    if (fails_ && thread_rank() == 1 && grad_enabled() && ++calls_ == 3)
      throw std::runtime_error("broken on purpose");
    return Classification::loss(output, batch);
  }

 private:
  bool fails_;
  mutable int calls_ = 0;
};

/// Runs it on `ranks` threads for `epochs` of five steps; returns the exit code.
int run_app(const test::ScratchFolder& scratch, int ranks, int epochs, bool fails = false) {
  std::vector<std::string> words{"fragile",
                                 scratch.write("deck.toml", R"(
        data = {kind = "synthetic", synthetic_samples = 100, synthetic_test_samples = 30, synthetic_image_size = 16}
        train = {batch_size = 20}
        optimizer = {kind = "adamw"}
        checkpoint = {every_steps = 2}
        run = {threads = 1}
        log = {every_steps = 1}
      )"),
                                 "--set",
                                 "run.dir=\"" + scratch.file("run") + "\"",
                                 "--set",
                                 "train.epochs=" + std::to_string(epochs),
                                 "--resume",
                                 "--ranks-as-threads=" + std::to_string(ranks)};
  std::vector<char*> arguments;
  for (auto& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  App app("fragile", "a program that may break",
          [&](Deck& deck) { return std::make_unique<FragileTask>(deck, fails); });
  return app.run(static_cast<int>(words.size()), arguments.data());
}

TEST(AppOnThreads, TrainsGoesOnWithAnotherNumberOfRanksAndFailsAsOne) {
  const test::ScratchFolder scratch;
  EXPECT_EQ(run_app(scratch, 2, 1), 0);
  EXPECT_EQ(run_app(scratch, 3, 2), 0);
  EXPECT_EQ(load_checkpoint(scratch.file("run/checkpoints/step-00000010.h5")).train.step, 10);
  EXPECT_EQ(run_app(scratch, 3, 3, true), 1);
  const std::string log = test::read_file(scratch.file("run/log.txt"));
  EXPECT_NE(log.find("fragile: rank 1 of 3: broken on purpose"), std::string::npos) << log;
}

}  // namespace
}  // namespace lockstep::train
