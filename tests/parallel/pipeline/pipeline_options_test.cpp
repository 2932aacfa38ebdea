// Tied parameters, replicas, accumulation and dropout of pipelines: as in the undivided model.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/pipeline/gpt_stages.hpp>

#include "pipeline_cases.hpp"

namespace lockstep {
namespace {

using test::PipelineCase;
using test::Trained;

class PipelineParts : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PipelineParts, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

// --- GPT, whose embedding is tied to its head

constexpr std::int64_t vocabulary = 11, context = 5, sequences = 6;

std::shared_ptr<nn::Gpt> make_gpt(bool recompute = false, std::uint64_t seed = 7) {
  const nn::DTypeGuard f64(DType::f64);
  const nn::DeviceGuard device(test::asked_for_device());
  nn::manual_seed(seed);
  return std::make_shared<nn::Gpt>(nn::GptOptions{.vocabulary = vocabulary,
                                                  .context = context,
                                                  .width = 8,
                                                  .depth = 15,
                                                  .heads = 2,
                                                  .recompute = recompute});
}

Tensor tokens(std::int64_t phase) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < sequences * context; ++i)
    values.push_back((i * 7 + phase) % vocabulary);
  return Tensor::from(values, {sequences, context}).to(test::asked_for_device());
}

Trained train_gpt(const std::shared_ptr<nn::Gpt>& gpt) {
  return test::train(gpt->named_parameters(), [&] {
    const Variable loss = gpt->loss(Variable(tokens(0)), tokens(3));
    loss.backward();
    return loss.item();
  });
}

Trained train_gpt_in_pipeline(const std::shared_ptr<nn::Gpt>& gpt,
                              const std::shared_ptr<ProcessGroup>& group,
                              const PipelineSchedule& schedule) {
  const auto stages = split_into_stages(*gpt, schedule.stages());
  std::vector<std::shared_ptr<nn::Module>> own;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (schedule.rank_of_stage[s] == group->rank()) own.push_back(stages[s]);
  }
  Pipeline pipeline(own, group, schedule,
                    [last = stages.back()](const Variable& x, const Tensor& target) {
                      return last->loss(x, target);
                    },
                    {.tied = {tied_embedding(schedule.stages())}});
  Trained trained =
      test::train(pipeline.named_parameters(), [&] { return pipeline.step(tokens(0), tokens(3)); });
  pipeline.close();
  return trained;
}

TEST_P(PipelineParts, TrainAGptWithItsTiedEmbeddingAsTheUndividedOne) {
  const Trained expected = train_gpt(make_gpt());
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    for (const auto& schedule :
         {gpipe(n, 4), one_f_one_b(n, 4), interleaved_1f1b(n, 2, 4), zero_bubble_h1(n, 4)}) {
      for (const bool recompute : {false, true}) {
        // The last stage's copy begins with the first one's value, whatever it was.
        const bool begins_elsewhere = n > 1 && group->rank() == n - 1;
        const auto gpt = make_gpt(recompute);
        if (begins_elsewhere) gpt->named_parameters().front().variable.data().fill(0.25);
        test::expect_near(train_gpt_in_pipeline(gpt, group, schedule), expected, 1e-10,
                          schedule.name);
      }
    }
  });
}

TEST_P(PipelineParts, TellTheLogitsOfAGpt) {
  const auto gpt = make_gpt();
  const Tensor expected = gpt->forward(Variable(tokens(0))).data();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    const auto stages = split_into_stages(*make_gpt(), n);
    Pipeline pipeline({stages[static_cast<std::size_t>(group->rank())]}, group, gpipe(n, 4),
                      test::mean_nll);
    const Tensor hidden = pipeline.forward(tokens(0));
    if (!pipeline.has_last_stage()) return;
    const auto logits = stages.back()->logits(Variable(hidden)).data().template to_vector<double>();
    const auto values = expected.to_vector<double>();
    ASSERT_EQ(logits.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(logits[i], values[i], 1e-12);
  });
}

TEST(StagesOfAGpt, HaveItsNamesAndBalancedArithmetic) {
  const auto gpt = std::make_shared<nn::Gpt>(
      nn::GptOptions{.vocabulary = 960, .context = 4, .width = 16, .depth = 6, .heads = 2});
  // The head costs as much as five blocks.
  const auto stages = split_into_stages(*gpt, 2);
  EXPECT_EQ(stages[0]->named_parameters().back().name, "h.4.mlp.c_proj.bias");
  EXPECT_EQ(stages[1]->named_parameters().back().name, "ln_f.bias");
  EXPECT_EQ(stages[0]->named_parameters()[0].variable.record(),
            gpt->named_parameters()[0].variable.record());
  EXPECT_EQ(split_into_stages(*gpt, {0, 6})[1]->named_parameters().size(), 3U) << "the head alone";
  for (const std::vector<std::size_t>& first :
       std::vector<std::vector<std::size_t>>{{}, {1}, {0, 7}, {0, 2, 2}}) {
    EXPECT_TRUE(test::mentions(
        test::message_of<InputError>([&] { static_cast<void>(split_into_stages(*gpt, first)); }),
        "first blocks"));
  }
  EXPECT_THROW(static_cast<void>(stages[0]->logits(Variable(Tensor::zeros({1, 4, 16})))), Error);
  EXPECT_THROW(static_cast<void>(stages[0]->forward(Variable(Tensor::zeros({1, 4})))), ShapeError);
}

TEST_P(PipelineParts, RefuseTiedParametersThatDoNotFit) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size(), last = n - 1;
    const auto refusal = [&](const std::vector<StageParameter>& tied, std::int64_t width = 3) {
      const std::int64_t own = group->rank() == last ? width : 3;
      const auto layer = std::make_shared<nn::Linear>(own, own);
      return test::message_of<InputError>([&] {
        Pipeline({layer}, group, gpipe(n, 1), test::mean_nll, PipelineOptions{.tied = {tied}});
      });
    };
    EXPECT_TRUE(
        test::mentions(refusal({{0, "weight"}, {last, "table"}}), "has no parameter table"));
    EXPECT_TRUE(test::mentions(refusal({{0, "weight"}, {n, "weight"}}), "is of stage"));
    if (n == 1) {
      EXPECT_TRUE(test::mentions(refusal({{0, "weight"}, {0, "bias"}}), "share one variable"));
    } else {
      EXPECT_TRUE(test::mentions(refusal({{0, "weight"}, {last, "weight"}}, 4),
                                 "is f32[3, 3] on rank 0, but f32[4, 4] on rank"));
    }
  });
}

// --- replicas

/// All meshes of `ranks` with a dimension of replicas.
std::vector<std::vector<MeshDim>> meshes_of(int ranks) {
  std::vector<std::vector<MeshDim>> meshes;
  for (int dp = 1; dp <= ranks; ++dp) {
    if (ranks % dp == 0) meshes.push_back({{"dp", dp}, {"pp", ranks / dp}});
  }
  return meshes;
}

TEST_P(PipelineParts, WithReplicasTrainAsTheUndividedModelOnTheGlobalBatch) {
  for (const PipelineCase& the : test::pipeline_cases(11)) {
    const Trained expected = test::train_undivided(the);
    test::on_ranks(GetParam(), [&](const auto& group) {
      for (const auto& dims : meshes_of(group->size())) {
        DeviceMesh mesh(group, dims);
        const int replicas = mesh.size("dp"), replica = mesh.local_rank("dp");
        const auto schedule = interleaved_1f1b(mesh.size("pp"), 2, 3);
        if (!test::has_stages(the, schedule)) continue;
        const auto stages = test::own_stages(*the.make(), schedule, mesh.local_rank("pp"));
        PipelineOptions options;
        for (const auto& stage : stages) {
          options.data_parallel.push_back(
              std::make_shared<DistributedDataParallel>(stage, mesh.group("dp")));
        }
        Pipeline pipeline(stages, mesh.group("pp"), schedule, test::mean_nll, options);
        const std::int64_t begin = 11 * replica / replicas, end = 11 * (replica + 1) / replicas;
        const double share = static_cast<double>(end - begin) / 11.0;
        Trained trained = test::train(pipeline.named_parameters(), [&] {
          const double loss = pipeline.step(the.input.slice(begin, end),
                                            the.target.slice(begin, end), replicas * share);
          return all_reduce_scalar(*mesh.group("dp"), share * loss, ReduceOp::sum);
        });
        test::expect_near(trained, expected, 1e-10, the.name + ", " + to_string(dims));
        mesh.close();
      }
    });
  }
}

/// This rank's gradients are those of the undivided model.
void expect_gradients(const Pipeline& pipeline, const nn::Module& reference,
                      const std::string& where) {
  const auto all = reference.named_parameters();
  for (const auto& [name, parameter] : pipeline.named_parameters()) {
    const auto same = std::ranges::find(all, name, &nn::NamedParameter::name);
    ASSERT_NE(same, all.end()) << name;
    const auto actual = parameter.grad().to_vector<double>();
    const auto expected = same->variable.grad().to_vector<double>();
    for (std::size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-12) << name << ", " << where;
  }
}

TEST_P(PipelineParts, AccumulateOverStepsAndSumTiedGradientsAndReplicasOnce) {
  const auto reference = make_gpt();
  const double loss = [&] {
    for (int i = 0; i < 3; ++i) {
      reference->loss(Variable(tokens(i)), tokens(i + 3)).backward(0.5);
    }
    return reference->loss(Variable(tokens(0)), tokens(3)).item();
  }();
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const auto& dims : meshes_of(group->size())) {
      DeviceMesh mesh(group, dims);
      const int pp = mesh.size("pp");
      const auto stages = split_into_stages(*make_gpt(), pp);
      const std::shared_ptr<nn::Module> own =
          stages[static_cast<std::size_t>(mesh.local_rank("pp"))];
      const auto ddp = std::make_shared<DistributedDataParallel>(own, mesh.group("dp"));
      Pipeline pipeline({own}, mesh.group("pp"), one_f_one_b(pp, 3),
                        [last = stages.back()](const Variable& x, const Tensor& target) {
                          return last->loss(x, target);
                        },
                        {.tied = {tied_embedding(pp)}, .data_parallel = {ddp}});
      // One step is summed, two more are added without zeroing: the first of them stays local.
      EXPECT_NEAR(pipeline.step(tokens(0), tokens(3), 0.5), loss, 1e-12);
      {
        const auto local = pipeline.no_sync();
        pipeline.step(tokens(1), tokens(4), 0.5);
      }
      pipeline.step(tokens(2), tokens(5), 0.5);
      expect_gradients(pipeline, *reference, to_string(dims));
      pipeline.close();
      mesh.close();
    }
  });
}

TEST_P(PipelineParts, ZeroGradDropsTiedGradientsOfStepsBeforeALocalOne) {
  const auto reference = make_gpt();
  for (const int i : {2, 3}) reference->loss(Variable(tokens(i)), tokens(i + 3)).backward();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int pp = group->size();
    const auto stages = split_into_stages(*make_gpt(), pp);
    Pipeline pipeline({stages[static_cast<std::size_t>(group->rank())]}, group, one_f_one_b(pp, 3),
                      [last = stages.back()](const Variable& x, const Tensor& target) {
                        return last->loss(x, target);
                      },
                      {.tied = {tied_embedding(pp)}});
    pipeline.step(tokens(0), tokens(3));
    {
      const auto local = pipeline.no_sync();
      pipeline.step(tokens(1), tokens(4));
    }
    for (const auto& [name, parameter] : pipeline.named_parameters()) parameter.zero_grad();
    pipeline.step(tokens(2), tokens(5));
    pipeline.step(tokens(3), tokens(6));
    expect_gradients(pipeline, *reference, std::to_string(pp) + " stages");
    pipeline.close();
    EXPECT_EQ(test::message_of<Error>([&] { pipeline.step(tokens(0), tokens(3)); }),
              "Pipeline: it was closed. Make another one.");
  });
}

TEST_P(PipelineParts, RefuseReplicasThatAreNotOfTheirStages) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    const auto alone = group->split(group->rank(), 0);
    const auto refusal = [&](const std::shared_ptr<nn::Module>& stage, PipelineOptions options) {
      return test::message_of<InputError>(
          [&] { Pipeline({stage}, group, gpipe(n, 1), test::mean_nll, options); });
    };
    const auto stage = std::make_shared<nn::Linear>(3, 3);
    const auto other =
        std::make_shared<DistributedDataParallel>(std::make_shared<nn::Linear>(3, 3), alone);
    EXPECT_TRUE(test::mentions(refusal(stage, {.tied = {}, .data_parallel = {other}}),
                               "of each of this rank's stages"));
    EXPECT_TRUE(test::mentions(refusal(stage, {.tied = {}, .data_parallel = {nullptr}}),
                               "of each of this rank's stages"));
    alone->close();
    const std::shared_ptr<nn::Module> norm = std::make_shared<nn::Sequential>(
        std::initializer_list<std::shared_ptr<nn::Module>>{std::make_shared<nn::BatchNorm1d>(3)});
    const auto synchronised =
        std::make_shared<DistributedDataParallel>(norm, group, DdpOptions{.sync_batch_norm = true});
    if (!norm->forward_is_collective()) return;  // one rank
    EXPECT_TRUE(test::mentions(refusal(norm, {.tied = {}, .data_parallel = {synchronised}}),
                               "synchronised BatchNorm"));
  });
}

TEST_P(PipelineParts, DrawDropoutAsTheUndividedModel) {
  PipelineCase the = test::pipeline_cases(10).front();
  the.make = [] {
    const nn::DTypeGuard f64(DType::f64);
    const nn::DeviceGuard device(test::asked_for_device());
    nn::manual_seed(7);
    return nn::mlp({6}, 4, {9, 8, 7, 6}, nn::Head::log_probabilities,
                   {.activation = nn::MlpLayers::Activation::tanh, .dropout = 0.4});
  };
  const auto model = the.make();
  std::uint32_t step = 0;
  const Trained expected = test::train(model->named_parameters(), [&] {
    const nn::RandomContextGuard draws({.seed = 5, .step = ++step, .first_sample = 20});
    const Variable loss = test::mean_nll(model->forward(Variable(the.input)), the.target);
    loss.backward();
    return loss.item();
  });
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto schedule = one_f_one_b(group->size(), 4);
    Pipeline pipeline(test::own_stages(*the.make(), schedule, group->rank()), group, schedule,
                      test::mean_nll);
    std::uint32_t at = 0;
    const Trained actual = test::train(pipeline.named_parameters(), [&] {
      pipeline.set_random_context(nn::RandomContext{.seed = 5, .step = ++at, .first_sample = 20});
      return pipeline.step(the.input, the.target);
    });
    test::expect_near(actual, expected, 1e-10, "dropout");
  });
}

}  // namespace
}  // namespace lockstep
