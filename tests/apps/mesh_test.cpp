// [mesh] in decks: ranks that share out the model train as one rank does, and checkpoints of each
// mesh are read by each other.
#include <gtest/gtest.h>

#include <apps/mesh_runs.hpp>
#include <string>

namespace lockstep::test {
namespace {

class Mesh : public MeshRuns {};

TEST_F(Mesh, TensorParallelGptHasTheCurveOfOneRankAlsoWithDataParallelism) {
  const Words divided = joined(one_epoch, {"mesh.tp=2"});
  const std::string alone = good(gpt(1, "one", one_epoch));
  const std::string output = good(gpt(2, "tp", divided));
  const auto parameters = [](const std::string& text) {
    return text.substr(text.find("model of "), text.find(" parameters") - text.find("model of "));
  };
  EXPECT_EQ(parameters(output), parameters(alone));
  expect_same_curve("one", "tp", 1e-4);
  good(gpt(4, "both", divided));
  expect_same_curve("one", "both", 1e-4);
  const auto whole = checkpoint("one", "12"), both = checkpoint("both", "12");
  ASSERT_EQ(whole.model.size(), both.model.size());
  for (const auto& [name, tensor, placement] : whole.model)
    EXPECT_EQ(both.model.at(name).shape(), tensor.shape()) << name;
}

TEST_F(Mesh, TensorParallelMlpHasTheCurveOfOneRank) {
  good(mlp(1, "one", one_epoch));
  good(mlp(2, "tp", joined(one_epoch, {"mesh.tp=2"})));
  expect_same_curve("one", "tp", 1e-4);
  good(mlp(4, "both", joined(one_epoch, {"mesh.dp=2", "mesh.tp=2"})));
  expect_same_curve("one", "both", 1e-4);
}

TEST_F(Mesh, TensorParallelTransformerHasTheCurveOfOneRank) {
  // Rounding grows tenfold in each further epoch.
  const Words model =
      joined(one_epoch, {"model.kind=\"transformer\"", "model.width=24", "model.heads=4",
                         "model.depth=2", "model.patch=[6]", "model.encoder_dropout=0.1"});
  const auto train = [&](int ranks, const std::string& dir, const Words& mesh) {
    return classify(ranks, small_run(scratch_.file(dir), settings(dir, joined(model, mesh))));
  };
  good(train(1, "one", {}));
  good(train(2, "tp", {"mesh.tp=2"}));
  expect_same_curve("one", "tp", 1e-4);
  good(train(4, "both", {"mesh.dp=2", "mesh.tp=2"}));
  expect_same_curve("one", "both", 1e-4);
  good(train(4, "stages", {"mesh.pp=2", "mesh.tp=2"}));
  expect_same_curve("one", "stages", 1e-4);
  expect_refused(train(2, "no", {"mesh.tp=2", "model.heads=1"}), "fewer than the 2 ranks");
}

TEST_F(Mesh, TensorParallelGptInFp16SkipsTheStepsOfOneRank) {
  // The first steps overflow; the scale grows again.
  const Words fp16{"train.precision=\"fp16\"", "train.loss_scale=1e9",
                   "train.loss_scale_growth_steps=4"};
  const auto skipped = [](const std::string& output) {
    int count = 0;
    for (auto at = output.find(" is skipped"); at != std::string::npos; ++count)
      at = output.find(" is skipped", at + 1);
    return count;
  };
  const int alone = skipped(good(gpt(1, "one", fp16)));
  EXPECT_GT(alone, 3);
  Words divided = fp16;
  divided.emplace_back("mesh.tp=2");
  EXPECT_EQ(skipped(good(gpt(2, "tp", divided))), alone);
  expect_same_curve("one", "tp", 5e-3);
  EXPECT_EQ(skipped(good(gpt(4, "both", divided))), alone);
  expect_same_curve("one", "both", 5e-3);
}

TEST_F(Mesh, ARunBeginsWithWholeWeightsOnAnyMesh) {
  good(gpt(1, "first", {"train.epochs=1"}));
  const Words from =
      joined(one_epoch, {"train.init_from=\"" + scratch_.file("first") + "\"", "train.seed=5"});
  const auto with = [&](const Words& more) { return joined(from, more); };
  const auto taken = [](const std::string& output) {
    const auto begin = output.find("took ");
    return output.substr(begin, output.find('\n', begin) - begin);
  };
  const std::string alone = taken(good(gpt(1, "one", from)));
  EXPECT_EQ(alone.find("left as initialised"), std::string::npos) << alone;
  EXPECT_EQ(taken(good(gpt(2, "tp", with({"mesh.tp=2"})))), alone);
  expect_same_curve("one", "tp", 1e-4);
  EXPECT_EQ(taken(good(gpt(2, "shares", with({"train.zero=3"})))), alone);
  expect_same_curve("one", "shares", 1e-4);
  EXPECT_EQ(taken(good(gpt(4, "all", with({"mesh.tp=2", "mesh.cp=2"})))), alone);
  expect_same_curve("one", "all", 1e-4);
}

TEST_F(Mesh, ContextParallelGptHasTheCurveOfOneRankAlsoWithTheOtherDimensions) {
  const Words in_parts = joined(one_epoch, {"mesh.cp=2"});
  good(gpt(1, "one", one_epoch));
  good(gpt(2, "cp", in_parts));
  expect_same_curve("one", "cp", 1e-4);
  good(gpt(4, "dp_cp", in_parts));
  expect_same_curve("one", "dp_cp", 1e-4);
  good(gpt(4, "cp_tp", joined(in_parts, {"mesh.tp=2"})));
  expect_same_curve("one", "cp_tp", 1e-4);
}

TEST_F(Mesh, ARunGoesOnOnAnotherMeshAndWithTheSameBitsOnItsOwn) {
  const auto train = [&](int ranks, const std::string& dir, const Words& mesh,
                         const Words& flags = {}) {
    return gpt(ranks, dir, joined(short_epochs, mesh), flags);
  };
  good(train(1, "one", {}));
  good(train(2, "whole", {"mesh.tp=2"}));
  const Words first{"mesh.tp=2", "run.stop_after_epochs=1"};
  EXPECT_EQ(train(2, "same", first).exit_code, 75);
  EXPECT_NE(good(train(2, "same", {"mesh.tp=2"}, {"--resume"})).find("resumed from"),
            std::string::npos);
  expect_same_state(checkpoint("whole", "12"), checkpoint("same", "12"));

  EXPECT_EQ(train(2, "other", first).exit_code, 75);
  good(train(4, "other", {"mesh.tp=4"}, {"--resume"}));
  expect_same_curve("one", "other", 1e-4);
  EXPECT_EQ(train(2, "undivided", first).exit_code, 75);
  good(train(1, "undivided", {}, {"--resume"}));
  expect_same_curve("one", "undivided", 1e-4);
  EXPECT_EQ(train(1, "divided", {"run.stop_after_epochs=1"}).exit_code, 75);
  good(train(2, "divided", {"mesh.tp=2"}, {"--resume"}));
  expect_same_curve("one", "divided", 1e-4);
}

TEST_F(Mesh, OneRankKilledOrAskedToStopEndsAllAndTheRunGoesOnWithTheSameBits) {
  expect_same_bits_after({"usr1 3 10", "kill 3 15"}, 4, {"mesh.tp=2"});
}

TEST_F(Mesh, AveragedWeightsOfDividedModelsAreThoseOfOneRank) {
  const Words average = joined(one_epoch, {"averaging.kind=\"ema\"", "averaging.decay=0.5"});
  good(gpt(1, "one", average));
  good(gpt(2, "tp", joined(average, {"mesh.tp=2"})));
  expect_same_curve("one", "tp", 1e-4);
}

TEST_F(Mesh, RefusesWrongCombinationsBeforeARunFolderIsMade) {
  expect_refused(gpt(2, "no", {"mesh.tp=3"}), "the sizes do not fit 2 ranks");
  expect_refused(gpt(3, "no", {"mesh.tp=3", "model.heads=2"}), "fewer than the 3 ranks");
  expect_refused(gpt(2, "no", {"mesh.tp=2", "optimizer.kind=\"lamb\""}), "trust ratios");
  expect_refused(gpt(2, "no", {"mesh.tp=2", "ddp.comm_hook=\"power_sgd\""}), "ddp.comm_hook");
  expect_refused(gpt(2, "no", {"mesh.cp=2", "data.context=30"}), "must be a multiple of 4");
  expect_refused(gpt(2, "no", {"mesh.cp=2", "train.reduction=\"invariant\""}), "invariant");
  expect_refused(mlp(2, "no", {"mesh.cp=2"}), "mesh.cp = 1");
  expect_refused(mlp(2, "no", {"mesh.tp=2", "model.hidden=[]"}), "at least");
  expect_refused(classify(2, small_run(scratch_.file("no"), {"--set", "mesh.tp=2"})), "ready plan");
}

}  // namespace
}  // namespace lockstep::test
