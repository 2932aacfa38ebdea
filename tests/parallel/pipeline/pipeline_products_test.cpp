// Pipelines whose stages are themselves spread over ranks: tensor-parallel, or sharded.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "pipeline_cases.hpp"

namespace lockstep {
namespace {

using test::PipelineCase;
using test::Trained;

class PipelineProducts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PipelineProducts, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

std::vector<PipelineSchedule> schedules_of(int ranks) {
  return {gpipe(ranks, 4), one_f_one_b(ranks, 4), interleaved_1f1b(ranks, 2, 4),
          zero_bubble_h1(ranks, 4)};
}

/// The losses depend on all weights and their updates.
void expect_losses(const Trained& actual, const Trained& expected, const std::string& what) {
  ASSERT_EQ(actual.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < actual.losses.size(); ++i)
    EXPECT_NEAR(actual.losses[i], expected.losses[i], 1e-10) << what << ", step " << i;
}

template <class Body>
void for_each_mesh(const std::shared_ptr<ProcessGroup>& group, const std::string& other,
                   const Body& body) {
  for (int pp = 1; pp <= group->size(); ++pp) {
    if (group->size() % pp != 0) continue;
    DeviceMesh mesh(group, {{"pp", pp}, {other, group->size() / pp}});
    for (const auto& schedule : schedules_of(pp)) body(mesh, schedule);
    mesh.close();
  }
}

TEST_P(PipelineProducts, OfTensorParallelStagesTrainAsTheUndividedModel) {
  const PipelineCase the = test::pipeline_cases(10).front();
  const Trained expected = test::train_undivided(the);
  test::on_ranks(GetParam(), [&](const auto& group) {
    for_each_mesh(group, "tp", [&](DeviceMesh& mesh, const PipelineSchedule& schedule) {
      const auto model = the.make();
      // First cut, by the whole layers' parameters: ranks' parts of a layer may differ in size.
      const auto stages = test::own_stages(*model, schedule, mesh.local_rank("pp"));
      tensor_parallelize(*model, mesh.group("tp"));
      Pipeline pipeline(stages, mesh.group("pp"), schedule, test::mean_nll);
      const Trained actual = test::train(pipeline.named_parameters(),
                                         [&] { return pipeline.step(the.input, the.target); });
      expect_losses(actual, expected, to_string(mesh.dims()) + ", " + schedule.name);
    });
  });
}

/// Calls a sharded stage where the stage would be called.
struct ShardedStage : nn::Module {
  ShardedStage(const std::shared_ptr<nn::Module>& stage, const std::shared_ptr<ProcessGroup>& group)
      : fsdp(std::make_shared<FullyShardedDataParallel>(stage, group)) {
    register_module("stage", stage);
  }
  Variable forward(const Variable& x) override { return fsdp->forward(x); }
  std::shared_ptr<FullyShardedDataParallel> fsdp;
};

/// Of `rows` rows, which replicas share out. There may be fewer than micro-batches, or none.
void expect_sharded_stages_train(int ranks, std::int64_t rows) {
  const PipelineCase the = test::pipeline_cases(rows).front();
  const Trained expected = test::train_undivided(the);
  test::on_ranks(ranks, [&](const auto& group) {
    for_each_mesh(group, "fsdp", [&](DeviceMesh& mesh, const PipelineSchedule& schedule) {
      if (schedule.stages() > 8) return;  // there are stages without parameters
      std::vector<std::shared_ptr<nn::Module>> stages;
      std::vector<nn::NamedParameter> pieces;
      for (const auto& stage : test::own_stages(*the.make(), schedule, mesh.local_rank("pp"))) {
        const auto sharded = std::make_shared<ShardedStage>(stage, mesh.group("fsdp"));
        stages.push_back(sharded);
        for (const auto& piece : sharded->fsdp->named_parameters()) pieces.push_back(piece);
      }
      if (schedule.name == "zero-bubble h1") {
        EXPECT_TRUE(test::mentions(test::message_of<InputError>([&] {
                                     Pipeline(stages, mesh.group("pp"), schedule, test::mean_nll);
                                   }),
                                   "parameters are sharded"));
        return;
      }
      Pipeline pipeline(stages, mesh.group("pp"), schedule, test::mean_nll);
      const int replicas = mesh.size("fsdp"), replica = mesh.local_rank("fsdp");
      const std::int64_t begin = rows * replica / replicas, end = rows * (replica + 1) / replicas;
      const double share = static_cast<double>(end - begin) / static_cast<double>(rows);
      const Trained actual = test::train(pieces, [&] {
        const double loss = pipeline.step(the.input.slice(begin, end), the.target.slice(begin, end),
                                          replicas * share);
        return all_reduce_scalar(*mesh.group("fsdp"), share * loss, ReduceOp::sum);
      });
      expect_losses(actual, expected, to_string(mesh.dims()) + ", " + schedule.name);
    });
  });
}

TEST_P(PipelineProducts, OfShardedStagesTrainAsTheUndividedModel) {
  expect_sharded_stages_train(GetParam(), 48);
}

TEST_P(PipelineProducts, OfShardedStagesWithFewerRowsThanMicroBatchesTrainToo) {
  expect_sharded_stages_train(GetParam(), 5);
  expect_sharded_stages_train(GetParam(), 1);
}

}  // namespace
}  // namespace lockstep
