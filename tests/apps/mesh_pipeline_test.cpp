// mesh.pp in decks: ranks that hold some of the layers train as one rank does, and their
// checkpoints are everybody's.
#include <gtest/gtest.h>

#include <apps/mesh_runs.hpp>
#include <string>

namespace lockstep::test {
namespace {

class Pipelined : public MeshRuns {};

TEST_F(Pipelined, GptHasTheCurveOfOneRankInEveryScheduleAndProduct) {
  const Words deep{"model.depth=4"};
  good(gpt(1, "one", deep));
  for (auto [ranks, dir, more] : std::vector<std::tuple<int, std::string, Words>>{
           {2, "1f1b", {"mesh.pp=2"}},
           {2, "gpipe", {"mesh.pp=2", "pipeline.schedule=\"gpipe\"", "pipeline.microbatches=3"}},
           {2, "zero_bubble", {"mesh.pp=2", "pipeline.schedule=\"zero_bubble_h1\""}},
           {2, "interleaved", {"mesh.pp=2", "pipeline.schedule=\"interleaved_1f1b\""}},
           {4, "dp", {"mesh.pp=2", "train.accumulate=2"}},
           {4, "tp", {"mesh.pp=2", "mesh.tp=2"}}}) {
    more.insert(more.end(), deep.begin(), deep.end());
    good(gpt(ranks, dir, more));
    expect_same_curve("one", dir, 1e-4);
  }
}

TEST_F(Pipelined, MlpHasTheCurveOfOneRank) {
  good(mlp(1, "one", {}));
  good(mlp(3, "pp", {"mesh.pp=3"}));
  expect_same_curve("one", "pp", 1e-4);
  good(mlp(4, "dp", {"mesh.pp=2", "mesh.dp=2"}));
  expect_same_curve("one", "dp", 1e-4);
}

TEST_F(Pipelined, ARunGoesOnFromAnyOtherMesh) {
  const Words deep{"model.depth=4"};
  good(gpt(1, "one", deep));
  const std::vector<std::pair<int, Words>> meshes{
      {1, {}},
      {2, {"mesh.pp=2"}},
      {2, {"train.zero=3"}},
      {4, {"mesh.pp=2", "mesh.tp=2"}},
      {2, {"mesh.pp=2", "pipeline.schedule=\"interleaved_1f1b\""}}};
  for (std::size_t i = 0; i < meshes.size(); ++i) {
    const auto& [ranks, mesh] = meshes[i];
    const auto& [ranks_then, mesh_then] = meshes[(i + 1) % meshes.size()];
    Words first = mesh, then = mesh_then;
    first.insert(first.end(), deep.begin(), deep.end());
    then.insert(then.end(), deep.begin(), deep.end());
    first.emplace_back("run.stop_after_epochs=1");
    const std::string dir = "run" + std::to_string(i);
    EXPECT_EQ(gpt(ranks, dir, first).exit_code, 75);
    good(gpt(ranks_then, dir, then, {"--resume"}));
    expect_same_curve("one", dir, 1e-4);
  }
}

TEST_F(Pipelined, OneRankKilledOrAskedToStopEndsAllAndTheRunGoesOnWithTheSameBits) {
  const Words mesh{"mesh.pp=2"};
  good(gpt(4, "whole", mesh));
  // The faults count forwards: 8 micro-batches a step.
  for (const std::string fault : {"usr1 3 80", "kill 2 120"}) {
    const std::string dir = fault.substr(0, 4);
    const Finished ended =
        run(app(4, "tests/apps/misbehave", gpt_run(dir, mesh)), {{"MISBEHAVE", fault}});
    ASSERT_NE(ended.exit_code, 0) << ended.output;
    const std::string resumed = good(gpt(4, dir, mesh, {"--resume"}));
    EXPECT_NE(resumed.find("resumed from"), std::string::npos) << ended.output << resumed;
    expect_same_state(checkpoint("whole", "24"), checkpoint(dir, "24"));
  }
}

TEST_F(Pipelined, AveragedWeightsAndSixteenBitsAreThoseOfOneRank) {
  const Words average{"averaging.kind=\"ema\"", "averaging.decay=0.5"};
  good(gpt(1, "one", average));
  Words stages = average;
  stages.emplace_back("mesh.pp=2");
  good(gpt(2, "pp", stages));
  expect_same_curve("one", "pp", 1e-4);
  good(gpt(1, "fp16", {"train.precision=\"fp16\""}));
  good(gpt(2, "fp16_pp", {"train.precision=\"fp16\"", "mesh.pp=2"}));
  expect_same_curve("fp16", "fp16_pp", 2e-2);
}

TEST_F(Pipelined, RefusesWhatDoesNotFitBeforeARunFolderIsMade) {
  const auto refused = [&](const Finished& run, const std::string& words) {
    EXPECT_EQ(run.exit_code, 2) << run.output;
    EXPECT_NE(run.output.find(words), std::string::npos) << run.output;
  };
  refused(gpt(4, "no", {"mesh.pp=2", "mesh.cp=2"}), "mesh.cp does not support");
  refused(gpt(2, "no", {"mesh.pp=2", "train.zero=3"}), "train.zero does not support");
  refused(gpt(2, "no", {"mesh.pp=2", "train.reduction=\"invariant\""}), "invariant");
  refused(mlp(3, "no", {"mesh.pp=3", "model.hidden=[8]"}), "stages");
  EXPECT_FALSE(std::filesystem::exists(scratch_.file("no")));
}

}  // namespace
}  // namespace lockstep::test
