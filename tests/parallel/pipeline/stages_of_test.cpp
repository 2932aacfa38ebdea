// Stages of the models of decks: their names, their arithmetic, and the undivided model's results.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/layered.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/nn/models/unet.hpp>
#include <lockstep/nn/module_list.hpp>

#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>

#include "deck_models.hpp"

namespace lockstep {
namespace {

using test::DeckModel;

/// One model of each kind that decks build, apart from unet.
std::vector<DeckModel> models() {
  const Tensor classes = test::numbers_below(4, {6}, 1);
  const auto kind = [&](const std::string& name, nn::ModelKind options, const Tensor& input) {
    const Shape sample(std::vector<std::int64_t>(input.shape().begin() + 1, input.shape().end()));
    return DeckModel{
        name,
        [=] { return nn::make_model({.kind = options, .freeze = {}}, sample, std::int64_t{4}); },
        input, classes};
  };
  return {
      kind("mlp", nn::MlpOptions{.hidden = {9, 8, 7}, .layers = {.norm = nn::MlpLayers::Norm::layer}},
           test::wave({6, 5}, 0.1)),
      kind("convnet", nn::ConvnetOptions{.dropout = 0.0}, test::wave({6, 1, 16, 16}, 0.2)),
      kind("resnet18", nn::ResNet18Options{}, test::wave({6, 1, 8, 8}, 0.3)),
      kind("transformer of images",
           nn::TransformerOptions{.width = 8, .depth = 3, .heads = 2, .patch = {4}},
           test::wave({6, 1, 8, 8}, 0.4)),
      kind("transformer of rows", nn::TransformerOptions{.width = 8, .depth = 2, .heads = 2},
           test::wave({6, 5}, 0.5)),
      kind("transformer of words",
           nn::TransformerOptions{.width = 8, .depth = 2, .heads = 2, .vocabulary = 9},
           test::numbers_below(9, {6, 5}, 2)),
      test::deck_gpt(),
  };
}

std::vector<std::string> names_of(const StateDict& state) {
  std::vector<std::string> names;
  for (const auto& entry : state) names.push_back(entry.name);
  std::ranges::sort(names);
  return names;
}

/// The stages one after the other.
Tensor run(const PipelineStages& cut, const Tensor& input) {
  Variable x(input);
  for (const auto& stage : cut.modules) x = (*stage)(x);
  return cut.output(x).data();
}

TEST(StagesOfDeckModels, HaveTheModelsNamesAndGiveItsOutput) {
  for (const DeckModel& the : models()) {
    const auto model = the.made();
    const nn::ModeGuard evaluating(*model, false);
    const auto expected = model->forward(Variable(the.input)).data().to_vector<double>();
    for (const int count : {1, 2, 3, 4}) {
      for (const Tensor& sample : {Tensor(), the.input.slice(0, 1)}) {
        const std::string what = the.name + ", " + std::to_string(count);
        const PipelineStages cut = stages_of(model, count, sample);
        ASSERT_EQ(cut.modules.size(), static_cast<std::size_t>(count)) << what;
        StateDict all;
        for (const auto& stage : cut.modules) {
          EXPECT_FALSE(stage->parameters().empty()) << what;
          for (const auto& [name, tensor, placement] : stage->state_dict()) {
            if (!all.find(name)) all.insert(name, tensor, placement);
            EXPECT_EQ(tensor.data(), model->state_dict().at(name).data()) << what << ", " << name;
          }
        }
        EXPECT_EQ(names_of(all), names_of(model->state_dict())) << what;
        EXPECT_EQ(cut.tied.size(), the.name == "gpt" && count > 1 ? 1U : 0U) << what;
        const auto actual = run(cut, the.input).to_vector<double>();
        ASSERT_EQ(actual.size(), expected.size()) << what;
        for (std::size_t i = 0; i < actual.size(); ++i)
          ASSERT_NEAR(actual[i], expected[i], 1e-12) << what;
      }
    }
  }
}

std::vector<double> arithmetic_of(const PipelineStages& cut, const Tensor& input) {
  std::vector<double> flops;
  Variable x(input);
  for (const auto& stage : cut.modules) {
    const nn::ModeGuard evaluating(*stage, false);
    const FlopCounter counter;
    x = (*stage)(x);
    flops.push_back(static_cast<double>(counter.flops()));
  }
  return flops;
}

TEST(StagesOfDeckModels, HaveBalancedArithmeticWithASample) {
  const auto model = nn::resnet18({3, 32, 32}, 10);
  const Tensor image = Tensor::zeros({1, 3, 32, 32});
  const auto spread = [&](const Tensor& sample) {
    const auto flops = arithmetic_of(stages_of(model, 4, sample), image);
    return *std::ranges::max_element(flops) * 4.0 /
           (flops[0] + flops[1] + flops[2] + flops[3]);
  };
  EXPECT_LT(spread(image), 1.25) << "the slowest stage, of the mean";
  EXPECT_GT(spread({}), 2.0) << "by parameters, most arithmetic is in the first";
}

TEST(StagesOfDeckModels, LeaveModeStatisticsAndFrozenParametersAsTheyAre) {
  const DeckModel the = test::deck_mlp();
  const auto model = the.made();
  const auto before = model->state_dict().at("norm1.running_mean").to_vector<double>();
  model->children()[1].second->set_requires_grad(false);
  const PipelineStages cut = stages_of(model, 2, the.input);
  EXPECT_EQ(model->state_dict().at("norm1.running_mean").to_vector<double>(), before);
  EXPECT_TRUE(cut.modules[0]->is_training());
  EXPECT_FALSE(cut.modules[0]->parameters()[0].requires_grad());

  const auto words = models()[5].made();
  words->set_requires_grad(false);
  for (const auto& stage : stages_of(words, 3).modules) {
    EXPECT_TRUE(stage->trained_parameters().empty());
  }
  EXPECT_TRUE(words->trained_parameters().empty());
}

TEST(StagesOfDeckModels, TellWhichParametersTheyShare) {
  const auto shared = std::make_shared<nn::Linear>(4, 4);
  const auto model = std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
      shared, std::make_shared<nn::Tanh>(), std::make_shared<nn::Linear>(4, 4), shared});
  const PipelineStages cut = stages_of(model, 3);
  ASSERT_EQ(cut.tied.size(), 2U);
  EXPECT_EQ(cut.tied[0][0].stage, 0);
  EXPECT_EQ(cut.tied[0][0].name, "0.weight");
  EXPECT_EQ(cut.tied[0][1].stage, 2);
  EXPECT_EQ(cut.tied[0][1].name, "3.weight");
}

TEST(StagesOfDeckModels, RefuseWhatCannotBeCutByItsName) {
  const auto refusal = [](const std::shared_ptr<nn::Module>& model, int stages) {
    return test::message_of<InputError>([&] { static_cast<void>(stages_of(model, stages)); });
  };
  const auto unet = nn::unet({1, 8, 8}, 1);
  EXPECT_TRUE(test::mentions(refusal(unet, 2), "a UNet cannot be cut into the stages"));
  EXPECT_EQ(stages_of(unet, 1).modules.front(), unet);
  EXPECT_TRUE(test::mentions(refusal(nn::mlp({4}, 2, {3}), 3),
                             "a Sequential of 2 layers with parameters cannot be cut into 3"));
  EXPECT_TRUE(test::mentions(refusal(nn::mlp({4}, 2, {3}), 0), "cannot be cut into 0"));
  EXPECT_TRUE(test::mentions(refusal(test::deck_gpt().made(), 17),
                             "a Gpt of 16 layers with parameters cannot be cut into 17"));
  EXPECT_TRUE(test::mentions(refusal(models()[5].made(), 5), "a Transformer of 4 layers"));
  EXPECT_TRUE(test::mentions(refusal(nullptr, 2), "null pointer"));
}

class DeckPipelines : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, DeckPipelines, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

TEST_P(DeckPipelines, GiveLossesGradientsAndOutputsOfTheUndividedModel) {
  for (const DeckModel& the : models()) {
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
