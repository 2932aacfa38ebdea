// Pipelines of the models of decks: losses, gradients and outputs of the undivided model.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>

#include "deck_models.hpp"

namespace lockstep {
namespace {

using test::DeckModel;

class DeckPipelines : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeckPipelines, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

TEST_P(DeckPipelines, GiveLossesGradientsAndOutputsOfTheUndividedModel) {
  for (const DeckModel& the : test::deck_models()) {
    if (the.name == "resnet18") continue;  // BatchNorm is over a micro-batch
    const auto model = the.made();
    const Variable loss = test::loss_of(*model, the.input, the.target);
    loss.backward();
    const Tensor output = model->forward(Variable(the.input)).data();
    test::on_ranks(GetParam(), [&](const auto& group) {
      const int n = std::min(group->size(), 4);  // not all have more layers
      const auto some = group->split(group->rank() < n ? 0 : -1, group->rank());
      if (some->rank() < 0) return some->close();
      const auto schedule = one_f_one_b(n, 3);
      const PipelineStages cut = stages_of(the.made(), n, the.input.slice(0, 1));
      Pipeline pipeline(cut.of_rank(schedule, some->rank()), some, schedule, test::loss_of(cut),
                        {.tied = cut.tied, .data_parallel = {}});
      EXPECT_NEAR(pipeline.step(the.input, the.target), loss.item(), 1e-10) << the.name;
      for (const auto& [name, parameter] : pipeline.named_parameters()) {
        const auto all = model->named_parameters();
        const auto same = std::ranges::find(all, name, &nn::NamedParameter::name);
        ASSERT_NE(same, all.end()) << name;
        const auto actual = parameter.grad().template to_vector<double>();
        const auto expected = same->variable.grad().template to_vector<double>();
        for (std::size_t i = 0; i < actual.size(); ++i)
          ASSERT_NEAR(actual[i], expected[i], 1e-10) << the.name << ", " << name;
      }
      const Tensor last = pipeline.forward(the.input);
      if (pipeline.has_last_stage()) {
        const auto actual = cut.output(Variable(last)).data().template to_vector<double>();
        const auto expected = output.to_vector<double>();
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-10);
      }
      pipeline.close();
      some->close();
    });
  }
}

TEST_P(DeckPipelines, OfAGptInTensorParallelStagesTrainAsTheUndividedModel) {
  const DeckModel the = test::deck_gpt();
  const auto model = the.made();
  const Variable loss = test::loss_of(*model, the.input, the.target);
  loss.backward();
  const double norm = optim::grad_norm(model->named_parameters());
  optim::AdamW(model->named_parameters()).step(0.5);
  const double next = test::loss_of(*model, the.input, the.target).item();
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (int pp = 1; pp <= group->size(); ++pp) {
      if (group->size() % pp != 0 || group->size() / pp > 4) continue;
      DeviceMesh mesh(group, {{"pp", pp}, {"tp", group->size() / pp}});
      {
        test::PipelineTraining training(the, mesh.group("pp"), one_f_one_b(pp, 3), 7,
                                        mesh.group("tp"));
        Pipeline& pipeline = *training.pipeline;
        EXPECT_NEAR(pipeline.step(the.input, the.target), loss.item(), 1e-10);
        const TensorParallelGradNorm slabs(pipeline.counted_parameters(), pipeline.state_dict(),
                                           mesh.group("tp"));
        const double own = pipeline.grad_norm(slabs.norm());
        EXPECT_NEAR(own, norm, 1e-10 * norm) << to_string(mesh.dims());
        EXPECT_TRUE(test::same_on_all_ranks(*group, std::to_string(own)));
        training.optimizer->step(0.5);
        EXPECT_NEAR(pipeline.evaluate(the.input, the.target), next, 1e-10);
      }
      mesh.close();
    }
  });
}

}  // namespace
}  // namespace lockstep
