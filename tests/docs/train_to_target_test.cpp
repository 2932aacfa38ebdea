#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <support/process.hpp>
#include <vector>

#include "page.hpp"

// docs/guide/write_an_app.md: a training part of a program's own.

namespace lockstep::test {
namespace {

/// From summary.json; -1 if it has none.
int epochs_of(const std::string& dir) {
  const std::string summary = read_file(dir + "/summary.json");
  std::smatch found;
  return std::regex_search(summary, found, std::regex("\"epochs\": ([0-9]+)")) ? std::stoi(found[1])
                                                                               : -1;
}

TEST(PartOfAProgram, EndsTheTrainingAndGoesOnFromItsStateInCheckpoints) {
  expect_excerpt("write_an_app.md", "train_to_target");

  const ScratchFolder scratch;
  const std::string deck = scratch.write("deck.toml", R"(
    data = {kind = "synthetic", synthetic_samples = 120, synthetic_test_samples = 50, synthetic_image_size = 8}
    model = {kind = "mlp", hidden = [16]}
    train = {epochs = 30, batch_size = 20}
    optimizer = {lr = 0.1}
    target = {loss = 100.0, epochs = 3}
  )");
  const auto train = [&](int ranks, const std::string& dir, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {deck, "--set", "run.dir=\"" + dir + "\""});
    return run(app(ranks, "docs/examples/train_to_target", arguments), {}, 60);
  };
  for (const int ranks : {1, 2}) {
    const std::string whole = scratch.file("whole" + std::to_string(ranks)),
                      parted = scratch.file("parted" + std::to_string(ranks));
    Finished finished = train(ranks, whole, {});
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_EQ(epochs_of(whole), 3) << "any loss is below the target";
    finished = train(ranks, parted, {"--set", "train.epochs=2"});
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_EQ(epochs_of(parted), 2);
    finished = train(ranks, parted, {"--resume"});
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
    EXPECT_EQ(epochs_of(parted), 3) << "two of the three had been seen";
  }
  const Finished checked = train(1, scratch.file("no"), {"--dry-run", "--set", "target.epochs=0"});
  EXPECT_EQ(checked.exit_code, 2) << checked.output;
  EXPECT_TRUE(checked.says("target.epochs")) << checked.output;
}

}  // namespace
}  // namespace lockstep::test
