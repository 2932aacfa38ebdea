// A model in stages on several ranks is trained as the undivided one.
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/operation.hpp>

#include "pipeline_cases.hpp"

namespace lockstep {
namespace {

using test::PipelineCase;
using test::Trained;

class Pipelines : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Pipelines, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

std::vector<PipelineSchedule> schedules_of(int ranks, int microbatches) {
  return {gpipe(ranks, microbatches), one_f_one_b(ranks, microbatches),
          interleaved_1f1b(ranks, 2, microbatches), zero_bubble_h1(ranks, microbatches)};
}

TEST_P(Pipelines, TrainAsTheUndividedModelWithEverySchedule) {
  for (const PipelineCase& the : test::pipeline_cases(12)) {
    const Trained expected = test::train_undivided(the);
    test::on_ranks(GetParam(), [&](const auto& group) {
      for (const auto& schedule : schedules_of(group->size(), 6)) {
        if (!test::has_stages(the, schedule)) continue;
        const Trained actual = test::train_in_pipeline(the, group, schedule);
        test::expect_near(actual, expected, 1e-10, the.name + ", " + schedule.name);
        EXPECT_TRUE(group->size() > 2 || !actual.weights.empty());
      }
    });
  }
}

TEST_P(Pipelines, TakeUnevenMicroBatchesAndFewerRowsThanMicroBatches) {
  for (const std::int64_t rows : {1, 3, 11}) {
    for (const PipelineCase& the : test::pipeline_cases(rows)) {
      const Trained expected = test::train_undivided(the);
      test::on_ranks(GetParam(), [&](const auto& group) {
        for (const auto& schedule : schedules_of(group->size(), 5)) {
          if (!test::has_stages(the, schedule)) continue;
          test::expect_near(test::train_in_pipeline(the, group, schedule), expected, 1e-10,
                            the.name + ", " + schedule.name + ", " + std::to_string(rows));
        }
      });
    }
  }
}

TEST_P(Pipelines, GiveTheBitsOfTheUndividedModelWithTheSameMicroBatchesWhateverTheSchedule) {
  const PipelineCase the = test::pipeline_cases(12).front();
  const auto model = the.make();
  const Trained expected = test::train(model->named_parameters(), [&] {
    double loss = 0.0;
    for (std::int64_t k = 0; k < 6; ++k) {
      const Variable one =
          test::mean_nll(model->forward(Variable(the.input.slice(2 * k, 2 * k + 2))),
                         the.target.slice(2 * k, 2 * k + 2));
      one.backward(2.0 / 12.0);
      loss += 2.0 / 12.0 * one.item();
    }
    return loss;
  });
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const auto& schedule : schedules_of(group->size(), 6)) {
      for (const auto& [name, values] : test::train_in_pipeline(the, group, schedule).weights)
        EXPECT_EQ(values, expected.weights.at(name)) << schedule.name << ", " << name;
    }
  });
}

TEST_P(Pipelines, LeaveEverythingAsItIsForABatchWithoutRows) {
  const PipelineCase the = test::pipeline_cases(4).front();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto schedule = one_f_one_b(group->size(), 2);
    Pipeline pipeline(test::own_stages(*the.make(), schedule, group->rank()), group, schedule,
                      test::mean_nll);
    EXPECT_EQ(pipeline.step(the.input.slice(0, 0), the.target.slice(0, 0)), 0.0);
    for (const auto& [name, parameter] : pipeline.named_parameters())
      EXPECT_FALSE(parameter.grad().defined()) << name;
    EXPECT_FALSE(pipeline.forward(the.input.slice(0, 0)).defined());
    EXPECT_GT(pipeline.step(the.input, the.target), 0.0);
  });
}

TEST_P(Pipelines, EvaluateAndForwardWithoutGradients) {
  for (const PipelineCase& the : test::pipeline_cases(7)) {
    const auto model = the.make();
    const Variable output = model->forward(Variable(the.input));
    const double loss = test::mean_nll(output, the.target).item();
    test::on_ranks(GetParam(), [&](const auto& group) {
      for (const auto& schedule : schedules_of(group->size(), 3)) {
        if (!test::has_stages(the, schedule)) continue;
        Pipeline pipeline(test::own_stages(*the.make(), schedule, group->rank()), group, schedule,
                          test::mean_nll);
        pipeline.eval();
        EXPECT_NEAR(pipeline.evaluate(the.input, the.target), loss, 1e-12) << schedule.name;
        const Tensor whole = pipeline.forward(the.input);
        ASSERT_EQ(whole.defined(), pipeline.has_last_stage());
        if (whole.defined()) {
          const auto values = whole.to_vector<double>();
          const auto expected = output.data().template to_vector<double>();
          ASSERT_EQ(whole.shape(), output.shape());
          for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(values[i], expected[i], 1e-12);
        }
        for (const auto& [name, parameter] : pipeline.named_parameters())
          EXPECT_FALSE(parameter.grad().defined()) << name;
      }
    });
  }
}

TEST_P(Pipelines, TakeSamplesOfAnotherShapeAfterForgettingShapes) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size();
    nn::manual_seed(3);
    std::vector<std::shared_ptr<nn::Module>> layers;
    for (int stage = 0; stage < n; ++stage) layers.push_back(std::make_shared<nn::Linear>(6, 6));
    const auto mean = [](const Variable& y, const Tensor&) { return lockstep::mean(y); };
    Pipeline pipeline({layers[static_cast<std::size_t>(group->rank())]}, group, one_f_one_b(n, 2),
                      mean);
    const auto step = [&](const Shape& shape) {
      const Tensor x = test::wave(shape, 0.5, DType::f32);
      Variable y(x);
      for (const auto& layer : layers) y = (*layer)(y);
      EXPECT_NEAR(pipeline.step(x, x), lockstep::mean(y).item(), 1e-5);
    };
    step({4, 6});
    step({6, 6});  // other rows
    pipeline.forget_shapes();
    step({4, 3, 6});
  });
}

/// Of a call, whose result is dropped.
template <class Call>
std::string refusal(const Call& call) {
  return test::message_of<InputError>([&] { static_cast<void>(call()); });
}

TEST_P(Pipelines, RefuseWrongArgumentsOnAllRanksAlike) {
  const PipelineCase the = test::pipeline_cases(4).front();
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int n = group->size(), last = n - 1;
    const auto schedule = one_f_one_b(n, 2);
    const auto stages = test::own_stages(*the.make(), schedule, group->rank());
    const auto make = [&](const PipelineSchedule& other, const auto& modules,
                          const Pipeline::Loss& loss) {
      return refusal([&] { return std::make_unique<Pipeline>(modules, group, other, loss); });
    };
    using Modules = std::vector<std::shared_ptr<nn::Module>>;
    EXPECT_TRUE(test::mentions(make(one_f_one_b(n + 1, 2), stages, test::mean_nll),
                               "is for " + std::to_string(n + 1) + " ranks"));
    EXPECT_TRUE(
        test::mentions(make(schedule, group->rank() == last ? Modules{} : stages, test::mean_nll),
                       "0 modules were given"));
    EXPECT_TRUE(test::mentions(
        make(schedule, group->rank() == last ? Modules{nullptr} : stages, test::mean_nll),
        "module is null"));
    EXPECT_TRUE(test::mentions(make(schedule, stages, {}), "needs a loss"));
    auto stuck = schedule;
    std::ranges::reverse(stuck.actions.back());
    EXPECT_TRUE(test::mentions(make(stuck, stages, test::mean_nll), "deadlock"));
    if (n > 1) {
      EXPECT_TRUE(test::mentions(
          make(group->rank() == last ? gpipe(n, 3) : schedule, stages, test::mean_nll),
          "another schedule than rank 0"));
    }

    Pipeline pipeline(stages, group, schedule, test::mean_nll);
    EXPECT_TRUE(
        test::mentions(refusal([&] { return pipeline.step({}, the.target); }), "batch's input"));
    EXPECT_TRUE(
        test::mentions(refusal([&] { return pipeline.step(the.input, {}); }), "batch's target"));
    EXPECT_TRUE(
        test::mentions(refusal([&] { return pipeline.step(the.input, the.target.slice(0, 3)); }),
                       "the batch's input has 4 rows on the first stage's rank, and its target 3"));
    EXPECT_GT(pipeline.step(the.input, the.target), 0.0) << "still usable";
  });
}

/// A group of one that says it is NCCL's.
class NcclByName final : public ProcessGroup {
 public:
  [[nodiscard]] int rank() const noexcept override { return 0; }
  [[nodiscard]] int size() const noexcept override { return 1; }
  [[nodiscard]] const char* backend() const noexcept override { return "nccl"; }

 private:
  [[nodiscard]] Work start(Operation&& operation) override {
    return start_on(one_, std::move(operation));
  }
  [[nodiscard]] std::shared_ptr<ProcessGroup> make_subgroup(std::span<const int>) override {
    return nullptr;
  }
  void release() override {}
  FakeGroup one_{1, 0};
};

TEST(PipelineOnNccl, IsRefusedWithARemedy) {
  const auto stage = std::make_shared<nn::Linear>(3, 3);
  EXPECT_TRUE(test::mentions(refusal([&] {
                               return std::make_unique<Pipeline>(
                                   std::vector<std::shared_ptr<nn::Module>>{stage},
                                   std::make_shared<NcclByName>(), gpipe(1, 1), test::mean_nll);
                             }),
                             "Give it the group that make_nccl_group was given"));
}

TEST(StagesOfAModel, HaveTheSmallestLargestCost) {
  using Cuts = std::vector<std::size_t>;
  EXPECT_EQ(balanced_stages({5, 0, 0, 5}, 2), (Cuts{0, 3})) << "layers without cost stay in front";
  EXPECT_EQ(balanced_stages({1, 1, 1, 3, 3}, 3), (Cuts{0, 3, 4}));
  EXPECT_EQ(balanced_stages({9, 1, 1, 1}, 4), (Cuts{0, 1, 2, 3}));
  EXPECT_EQ(balanced_stages({2, 2, 2}, 1), (Cuts{0}));
  EXPECT_TRUE(test::mentions(refusal([] { return balanced_stages({1.0}, 2); }), "2 stages"));
  EXPECT_TRUE(test::mentions(refusal([] { return balanced_stages({1.0}, 0); }), "0 stages"));
  EXPECT_TRUE(test::mentions(refusal([] {
                               return balanced_stages({1.0, -1.0}, 1);
                             }),
                             "at least 0"));
}

TEST(StagesOfAModel, ShareItsModulesUnderTheirNames) {
  const auto model = nn::mlp({6}, 4, {5, 5});
  const auto stages = split_into_stages(*model, {0, 3});
  ASSERT_EQ(stages.size(), 2U);
  std::vector<std::string> names;
  for (const auto& stage : stages) {
    for (const auto& [name, variable] : stage->named_parameters()) names.push_back(name);
  }
  std::vector<std::string> expected;
  for (const auto& [name, variable] : model->named_parameters()) expected.push_back(name);
  EXPECT_EQ(names, expected);
  EXPECT_EQ(stages[0]->parameters()[0].record(), model->parameters()[0].record());
  for (const std::vector<std::size_t>& cuts :
       std::vector<std::vector<std::size_t>>{{}, {1}, {0, 0}, {0, 3, 2}, {0, 99}}) {
    EXPECT_TRUE(test::mentions(refusal([&] { return split_into_stages(*model, cuts); }),
                               "must begin with 0 and rise"));
  }
}

}  // namespace
}  // namespace lockstep
