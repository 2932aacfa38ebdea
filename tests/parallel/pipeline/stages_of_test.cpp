// Stages of the models of decks: their names, their arithmetic, and the undivided model's output.
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

#include "deck_models.hpp"

namespace lockstep {
namespace {

using test::DeckModel;

DeckModel words() { return test::deck_models()[4]; }

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
  for (const DeckModel& the : test::deck_models()) {
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
  const auto model = nn::resnet18({3, 16, 16}, 10);
  const Tensor image = Tensor::zeros({1, 3, 16, 16});
  const auto spread = [&](const Tensor& sample) {
    const auto flops = arithmetic_of(stages_of(model, 4, sample), image);
    return *std::ranges::max_element(flops) * 4.0 / (flops[0] + flops[1] + flops[2] + flops[3]);
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

  const auto frozen = words().made();
  frozen->set_requires_grad(false);
  for (const auto& stage : stages_of(frozen, 3).modules) {
    EXPECT_TRUE(stage->trained_parameters().empty());
  }
  EXPECT_TRUE(frozen->trained_parameters().empty());
}

TEST(StagesOfDeckModels, TellWhichParametersTheyShare) {
  const auto shared = std::make_shared<nn::Linear>(4, 4);
  const auto model =
      std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
          shared, std::make_shared<nn::Tanh>(), std::make_shared<nn::Linear>(4, 4), shared});
  const PipelineStages cut = stages_of(model, 3);
  ASSERT_EQ(cut.tied.size(), 2U);
  EXPECT_EQ(cut.tied[0][0].stage, 0);
  EXPECT_EQ(cut.tied[0][0].name, "0.weight");
  EXPECT_EQ(cut.tied[0][1].stage, 2);
  EXPECT_EQ(cut.tied[0][1].name, "3.weight");
}

TEST(StagesOfDeckModels, RefuseModelsThatCannotBeCutByTheirNames) {
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
  EXPECT_TRUE(test::mentions(refusal(words().made(), 5), "a Transformer of 4 layers"));
  EXPECT_TRUE(test::mentions(refusal(nullptr, 2), "null pointer"));
}

}  // namespace
}  // namespace lockstep
