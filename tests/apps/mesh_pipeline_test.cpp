// mesh.pp in decks: ranks that hold some of the layers train as one rank does, and their
// checkpoints are everybody's.
#include <gtest/gtest.h>

#include <apps/mesh_runs.hpp>
#include <string>

namespace lockstep::test {
namespace {

class Pipelined : public MeshRuns {
 protected:
  static constexpr const char* interleaved = "pipeline.schedule=\"interleaved_1f1b\"";
};

TEST_F(Pipelined, GptHasTheCurveOfOneRankInEveryScheduleAndProduct) {
  const Words deep = joined(one_epoch, {"model.depth=4"});
  good(gpt(1, "one", deep));
  for (const auto& [ranks, dir, more] : std::vector<std::tuple<int, std::string, Words>>{
           {2, "1f1b", {"mesh.pp=2"}},
           {2, "gpipe", {"mesh.pp=2", "pipeline.schedule=\"gpipe\"", "pipeline.microbatches=3"}},
           {2, "zero_bubble", {"mesh.pp=2", "pipeline.schedule=\"zero_bubble_h1\""}},
           {2, "interleaved", {"mesh.pp=2", interleaved}},
           {4, "dp", {"mesh.pp=2", "train.accumulate=2"}},
           {4, "zero1", {"mesh.pp=2", "train.zero=1"}},
           {4, "zero1_interleaved", {"mesh.pp=2", "train.zero=1", interleaved}},
           {4, "tp", {"mesh.pp=2", "mesh.tp=2"}},
           {8, "tp_zero1", {"mesh.pp=2", "mesh.tp=2", "train.zero=1"}}}) {
    good(gpt(ranks, dir, joined(more, deep)));
    expect_same_curve("one", dir, 1e-4);
  }
}

TEST_F(Pipelined, MlpHasTheCurveOfOneRank) {
  good(mlp(1, "one", one_epoch));
  good(mlp(3, "pp", joined(one_epoch, {"mesh.pp=3"})));
  expect_same_curve("one", "pp", 1e-4);
  good(mlp(4, "dp", joined(one_epoch, {"mesh.pp=2", "mesh.dp=2"})));
  expect_same_curve("one", "dp", 1e-4);
}

TEST_F(Pipelined, ARunGoesOnFromAnyOtherMesh) {
  const Words deep = joined(short_epochs, {"model.depth=4"});
  good(gpt(1, "one", deep));
  const std::vector<std::pair<int, Words>> meshes{{1, {}},
                                                  {2, {"mesh.pp=2"}},
                                                  {2, {"train.zero=3"}},
                                                  {4, {"mesh.pp=2", "mesh.tp=2"}},
                                                  {4, {"mesh.pp=2", "train.zero=1"}},
                                                  {2, {"mesh.pp=2", interleaved}},
                                                  {8, {"mesh.pp=2", "mesh.tp=2", "train.zero=1"}}};
  expect_each_goes_on_on_the_next(meshes, deep, 1e-4);
}

TEST_F(Pipelined, OneRankKilledOrAskedToStopEndsAllAndTheRunGoesOnWithTheSameBits) {
  // The faults count forwards: 8 micro-batches a step.
  expect_same_bits_after({"usr1 3 80", "kill 2 120"}, 4, {"mesh.pp=2"});
}

TEST_F(Pipelined, ARankThatHoldsAShareOfTheOptimizerIsKilledAndTheRunGoesOnWithTheSameBits) {
  expect_same_bits_after({"kill 3 120"}, 4, {"mesh.pp=2", "train.zero=1"});
}

TEST_F(Pipelined, AveragedWeightsAndSixteenBitsAreThoseOfOneRank) {
  const Words average = joined(one_epoch, {"averaging.kind=\"ema\"", "averaging.decay=0.5"});
  good(gpt(1, "one", average));
  good(gpt(2, "pp", joined(average, {"mesh.pp=2"})));
  expect_same_curve("one", "pp", 1e-4);
  const Words fp16 = joined(one_epoch, {"train.precision=\"fp16\""});
  good(gpt(1, "fp16", fp16));
  good(gpt(2, "fp16_pp", joined(fp16, {"mesh.pp=2"})));
  expect_same_curve("fp16", "fp16_pp", 2e-2);
}

TEST_F(Pipelined, ParameterGroupsAndFrozenParametersOfOneStageAreThoseOfOneRank) {
  const Words groups =
      joined(one_epoch, {"optimizer.group_pattern=[\"wte.weight\", \"ln_f.*\"]",
                         "optimizer.group_lr_factor=[0.5, 2.0]",
                         "optimizer.group_weight_decay=[0.0, 0.2]", "model.freeze=[\"h.0.*\"]"});
  good(gpt(1, "one", groups));
  good(gpt(2, "pp", joined(groups, {"mesh.pp=2"})));
  expect_same_curve("one", "pp", 1e-4);
}

TEST_F(Pipelined, RefusesWrongCombinationsBeforeARunFolderIsMade) {
  expect_refused(gpt(4, "no", {"mesh.pp=2", "mesh.cp=2"}), "mesh.cp does not support");
  expect_refused(gpt(2, "no", {"mesh.pp=2", "train.zero=3"}), "train.zero = 3 does not support");
  expect_refused(gpt(2, "no", {"mesh.pp=2", "train.reduction=\"invariant\""}), "invariant");
  expect_refused(mlp(3, "no", {"mesh.pp=3", "model.hidden=[8]"}), "stages");
  expect_refused(mlp(3, "no", {"mesh.pp=3", "model.freeze=[\"fc2.*\"]"}),
                 "leaves rank 1 of mesh.pp = 3 no parameter");
}

}  // namespace
}  // namespace lockstep::test
