#include <gtest/gtest.h>

#include <string>
#include <support/process.hpp>
#include <vector>

#include "page.hpp"

// docs/guide/write_an_app.md: a program with an optimizer of its own.

namespace lockstep::test {
namespace {

TEST(OwnOptimizerOfThePage, TrainsByItsDeckAndIsResumedWithTheSameBits) {
  expect_excerpt("write_an_app.md", "own_optimizer");

  const ScratchFolder scratch;
  const std::string deck = scratch.write(
      "deck.toml",
      "data = {kind = \"synthetic\", synthetic_samples = 60, synthetic_test_samples = 20, "
      "synthetic_image_size = 6}\n"
      "model = {kind = \"mlp\", hidden = [8]}\n"
      "train = {epochs = 2, batch_size = 20, reduction = \"invariant\"}\n"
      "optimizer = {kind = \"qhm\", lr = 0.5, nu = 0.5}\n");
  const auto train = [&](int ranks, const std::string& dir, const std::vector<std::string>& more) {
    std::vector<std::string> all{deck, "--set", "run.dir=\"" + scratch.file(dir) + "\""};
    all.insert(all.end(), more.begin(), more.end());
    return run(app(ranks, "docs/examples/own_optimizer", all), {}, 60);
  };
  const Finished whole = train(2, "whole", {});
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  const Finished half = train(1, "parts", {"--set", "train.epochs=1"});
  ASSERT_EQ(half.exit_code, 0) << half.output;
  const Finished rest = train(1, "parts", {"--resume"});
  ASSERT_EQ(rest.exit_code, 0) << rest.output;
  const auto checkpoint = [&](const std::string& dir) {
    return scratch.file(dir) + "/checkpoints/step-00000006.h5";
  };
  const Finished compared =
      run({built("apps/lockstep"), "checkpoint", "diff", checkpoint("whole"), checkpoint("parts")});
  EXPECT_TRUE(compared.says("/deck: differs")) << compared.output;  // run.dir
  EXPECT_FALSE(compared.says("/model") || compared.says("/optimizer")) << compared.output;

  const Finished misspelt = train(1, "wrong", {"--set", "optimizer.mu=0.5"});
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_TRUE(misspelt.says("unknown key optimizer.mu. Did you mean nu?")) << misspelt.output;
  const Finished of_another = train(1, "wrong", {"--set", "optimizer.nesterov=true"});
  EXPECT_EQ(of_another.exit_code, 2);
  EXPECT_TRUE(of_another.says("optimizer.kind is \"qhm\"")) << of_another.output;
}

}  // namespace
}  // namespace lockstep::test
