// train.zero = 2 and 3 and mesh.fsdp in decks: ranks that hold shares of the model train as one
// rank does, and their checkpoints are everybody's.
#include <gtest/gtest.h>

#include <apps/mesh_runs.hpp>
#include <string>

namespace lockstep::test {
namespace {

class Sharded : public MeshRuns {};

TEST_F(Sharded, GptHasTheCurveOfOneRankAlsoWithContextParallelism) {
  const Words no_dropout = joined(one_epoch, {"model.residual_dropout=0"});
  good(gpt(1, "one", no_dropout));
  for (const auto& [ranks, dir, more] : std::vector<std::tuple<int, std::string, Words>>{
           {2, "zero2", {"train.zero=2"}},
           {2, "zero3", {"train.zero=3"}},
           {2, "fsdp", {"mesh.fsdp=2", "mesh.dp=1", "train.zero=3"}},
           {3, "uneven", {"train.zero=3", "train.accumulate=2"}},
           {4, "hybrid", {"mesh.fsdp=2", "mesh.dp=2", "train.zero=3"}},
           {4, "tp", {"train.zero=3", "mesh.tp=2"}},
           {4, "zero1_tp", {"train.zero=1", "mesh.tp=2"}},
           {4, "cp", {"train.zero=3", "mesh.cp=2"}}}) {
    good(gpt(ranks, dir, joined(no_dropout, more)));
    expect_same_curve("one", dir, 1e-4);
  }
}

TEST_F(Sharded, DropoutDrawsTheNumbersOfOneRank) {
  good(gpt(1, "one", one_epoch));
  good(gpt(2, "zero3", joined(one_epoch, {"train.zero=3"})));
  expect_same_curve("one", "zero3", 1e-4);
}

TEST_F(Sharded, SixteenBitsTrainAsWithoutShares) {
  const auto train = [&](const std::string& dir, const Words& more) {
    good(gpt(2, dir, joined(one_epoch, more)));
  };
  train("bf16", {"train.precision=\"bf16\""});
  train("bf16_zero3", {"train.precision=\"bf16\"", "train.zero=3"});
  expect_same_curve("bf16", "bf16_zero3", 2e-2);
  train("fp16", {"train.precision=\"fp16\""});
  train("fp16_zero3", {"train.precision=\"fp16\"", "train.zero=3"});
  expect_same_curve("fp16", "fp16_zero3", 2e-2);
  train("hook", {"train.zero=3", "ddp.comm_hook=\"bf16_compress\""});
  train("no_hook", {"train.zero=3"});
  expect_same_curve("no_hook", "hook", 2e-2);
}

TEST_F(Sharded, ARunGoesOnFromAnyOtherSharding) {
  good(gpt(1, "one", short_epochs));
  const std::vector<std::pair<int, Words>> meshes{{1, {}},
                                                  {3, {"train.zero=3"}},
                                                  {2, {"mesh.tp=2"}},
                                                  {2, {"train.zero=2"}},
                                                  {4, {"train.zero=1", "mesh.cp=2"}},
                                                  {2, {"train.zero=3"}}};
  expect_each_goes_on_on_the_next(meshes, short_epochs, 1e-4);
}

TEST_F(Sharded, OneRankKilledOrAskedToStopEndsAllAndTheRunGoesOnWithTheSameBits) {
  expect_same_bits_after({"usr1 2 10", "kill 1 15"}, 3, {"train.zero=3"});
}

TEST_F(Sharded, AveragedWeightsAreThoseOfOneRank) {
  const Words average{"averaging.kind=\"ema\"", "averaging.decay=0.5", "averaging.every_steps=2"};
  good(gpt(1, "one", average));
  Words shares = average;
  shares.emplace_back("train.zero=3");
  good(gpt(2, "zero3", shares));
  expect_same_curve("one", "zero3", 1e-4);
  EXPECT_EQ(gpt(2, "resumed", joined(shares, {"run.stop_after_epochs=1"})).exit_code, 75);
  good(gpt(2, "resumed", shares, {"--resume"}));
  expect_same_state(checkpoint("zero3", "24"), checkpoint("resumed", "24"));
}

TEST_F(Sharded, OfAModelWithBatchNormTheStatisticsAreThoseOfDataParallelism) {
  // A small step, as a larger one makes rounding grow to percents within ten steps.
  const Words net{
      "model.kind=\"resnet18\"",   "train.batch_size=16",          "train.epochs=1",
      "data.synthetic_samples=96", "data.synthetic_image_size=12", "data.synthetic_test_samples=20",
      "log.every_steps=1",         "checkpoint.every_steps=0",     "optimizer.lr=0.0001"};
  const auto train = [&](const std::string& dir, Words more) {
    more.insert(more.end(), net.begin(), net.end());
    good(classify(2, small_run(scratch_.file(dir), settings(dir, more))));
  };
  train("ddp", {});
  train("zero3", {"train.zero=3"});
  expect_same_curve("ddp", "zero3", 1e-3);
  train("ddp_sync", {"ddp.sync_batch_norm=true"});
  train("zero3_sync", {"train.zero=3", "ddp.sync_batch_norm=true"});
  expect_same_curve("ddp_sync", "zero3_sync", 1e-3);
}

}  // namespace
}  // namespace lockstep::test
