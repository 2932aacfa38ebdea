// Parts of a training beside steps: norms, scaled losses, losses of any rows, questions, times.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/packed.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>

#include "deck_models.hpp"

namespace lockstep {
namespace {

using test::DeckModel;
using test::PipelineTraining;

class PipelineInTraining : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, PipelineInTraining, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

TEST_P(PipelineInTraining, HasTheGradientNormOfTheUndividedModelWithTheSameBitsOnAllRanks) {
  const DeckModel the = test::deck_gpt();
  const auto model = the.made();
  test::loss_of(*model, the.input, the.target).backward();
  const double expected = optim::grad_norm(model->named_parameters());
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const auto& schedule :
         {one_f_one_b(group->size(), 3), interleaved_1f1b(group->size(), 2, 3)}) {
      PipelineTraining training(the, group, schedule);
      training.pipeline->step(the.input, the.target);
      const double norm = training.pipeline->grad_norm();
      EXPECT_NEAR(norm, expected, 1e-12 * expected) << schedule.name;
      EXPECT_TRUE(test::same_on_all_ranks(*group, packed(norm)));
    }
  });
}

TEST_P(PipelineInTraining, ScalesGradientsByTheLossScaleAndReportsTheLossWithoutIt) {
  const DeckModel the = test::deck_mlp();
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const auto& schedule : {one_f_one_b(group->size(), 3), zero_bubble_h1(group->size(), 3)}) {
      PipelineTraining plain(the, group, schedule), scaled(the, group, schedule);
      const Tensor scale = Tensor::full({}, 1024.0, DType::f32).to(test::asked_for_device());
      const double loss = plain.pipeline->step(the.input, the.target, 0.5);
      EXPECT_EQ(scaled.pipeline->step(the.input, the.target, 0.5,
                                      scaled.pipeline->has_last_stage() ? scale : Tensor()),
                loss);
      for (std::size_t i = 0; i < plain.pipeline->named_parameters().size(); ++i) {
        auto expected =
            plain.pipeline->named_parameters()[i].variable.grad().template to_vector<double>();
        for (double& value : expected) value *= 1024.0;  // a power of two: exactly
        EXPECT_EQ(
            scaled.pipeline->named_parameters()[i].variable.grad().template to_vector<double>(),
            expected);
      }
    }
  });
}

TEST_P(PipelineInTraining, SkipsAStepOnAllRanksWhereOneRanksGradientsAreNotFinite) {
  const DeckModel the = test::deck_mlp();
  test::on_ranks(GetParam(), [&](const auto& group) {
    PipelineTraining training(the, group, one_f_one_b(group->size(), 3));
    Pipeline& pipeline = *training.pipeline;
    optim::GradScaler scaler({.init_scale = 8.0}, test::asked_for_device());
    const auto before = test::weights_of(pipeline.named_parameters());
    const auto one_step = [&](bool breaks) {
      training.optimizer->zero_grad();
      pipeline.step(the.input, the.target, 1.0, scaler.scale_tensor());
      if (breaks && group->rank() == group->size() - 1) {
        pipeline.named_parameters().front().variable.grad().fill(
            std::numeric_limits<double>::infinity());
      }
      pipeline.agree_on_found_inf();
      static_cast<void>(scaler.step(*training.optimizer));
      scaler.update();
    };
    one_step(true);
    EXPECT_EQ(test::weights_of(pipeline.named_parameters()), before);
    EXPECT_EQ(scaler.scale(), 4.0);
    one_step(false);
    EXPECT_NE(test::weights_of(pipeline.named_parameters()), before);
    EXPECT_EQ(scaler.scale(), 4.0);
  });
}

TEST_P(PipelineInTraining, RefusesToAgreeWhereARankHasNothingToTrain) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    const std::shared_ptr<nn::Module> layer = std::make_shared<nn::Linear>(3, 3);
    layer->set_requires_grad(group->rank() != n - 1);
    Pipeline pipeline({layer}, group, gpipe(n, 1), test::mean_nll);
    EXPECT_TRUE(test::mentions(test::message_of<Error>([&] { pipeline.agree_on_found_inf(); }),
                               "Pipeline: a rank has no element of any trained parameter"));
  });
}

TEST_P(PipelineInTraining, TellsTheLossItsRows) {
  const DeckModel the = test::deck_mlp(11);
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    const auto schedule = one_f_one_b(n, 4);
    const PipelineStages cut = stages_of(the.made(), n);
    std::vector<Microbatch> seen;
    Pipeline pipeline(cut.of_rank(schedule, group->rank()), group, schedule,
                      [&](const Variable& y, const Tensor& target, const Microbatch& rows) {
                        seen.push_back(rows);
                        EXPECT_EQ(target.size(0), rows.rows());
                        return nll_loss(y, the.target.slice(rows.begin, rows.end));
                      });
    pipeline.eval();
    const auto model = the.made();
    model->eval();
    EXPECT_NEAR(pipeline.step(the.input, the.target),
                test::loss_of(*model, the.input, the.target).item(), 1e-12);
    const auto expected = pipeline.microbatches(11);
    ASSERT_EQ(expected.size(), 4U);
    EXPECT_EQ(expected[0].rows(), 3);
    EXPECT_EQ(expected[3].rows(), 2);
    EXPECT_EQ(expected[3].end, 11);
    if (!pipeline.has_last_stage()) return;
    ASSERT_EQ(seen.size(), 4U);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i].number, expected[i].number);
      EXPECT_EQ(seen[i].begin, expected[i].begin);
    }
  });
}

TEST_P(PipelineInTraining, AsksAllRanksAlongWithEachStep) {
  const DeckModel the = test::deck_mlp();
  test::on_ranks(GetParam(), [&](const auto& group) {
    PipelineTraining training(the, group, one_f_one_b(group->size(), 3));
    bool yes = false;
    training.pipeline->ask_along([&] { return yes; });
    training.step(the);
    EXPECT_FALSE(training.pipeline->any_said_yes());
    yes = group->rank() == group->size() - 1;
    training.step(the);
    EXPECT_TRUE(training.pipeline->any_said_yes());
    yes = false;
    static_cast<void>(training.pipeline->evaluate(the.input, the.target));
    EXPECT_TRUE(training.pipeline->any_said_yes()) << "of the last step";
    training.step(the);
    EXPECT_FALSE(training.pipeline->any_said_yes());
  });
}

/// Its second parameter is never used.
struct HalfUsed : nn::Module {
  Variable forward(const Variable& x) override { return (*used)(x); }
  std::shared_ptr<nn::Linear> used = register_module("used", std::make_shared<nn::Linear>(3, 3));
  std::shared_ptr<nn::Linear> idle = register_module("idle", std::make_shared<nn::Linear>(3, 3));
};

TEST_P(PipelineInTraining, NamesParametersThatNoLossReachesAndCountsItsWaiting) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    for (const bool replicas : {false, true}) {
      DeviceMesh mesh(group, {{"dp", replicas ? n : 1}, {"pp", -1}});
      const int pp = mesh.size("pp"), rank = mesh.local_rank("pp");
      const bool is_last = rank == pp - 1;
      const std::shared_ptr<nn::Module> stage =
          is_last
              ? std::static_pointer_cast<nn::Module>(std::make_shared<HalfUsed>())
              : std::make_shared<nn::Sequential>(std::initializer_list<nn::Sequential::NamedModule>{
                    {"of" + std::to_string(rank), std::make_shared<nn::Linear>(3, 3)}});
      PipelineOptions options;
      if (replicas) {
        options.data_parallel.push_back(
            std::make_shared<DistributedDataParallel>(stage, mesh.group("dp")));
      }
      Pipeline pipeline(
          {stage}, mesh.group("pp"), one_f_one_b(pp, 2),
          [](const Variable& y, const Tensor&) { return mean(y); }, options);
      const Tensor x = Tensor::full({4, 3}, 1.0).to(test::asked_for_device());
      pipeline.step(x, x);
      EXPECT_EQ(pipeline.never_used(), (std::vector<std::string>{"idle.weight", "idle.bias"}));
      EXPECT_EQ(pipeline.stats().wait_s > 0.0, pp > 1);
      EXPECT_EQ(pipeline.stats().tied_wait_s, 0.0);
      mesh.close();
    }
  });
}

}  // namespace
}  // namespace lockstep
