// Linear layers that ranks share out, in an mlp: the undivided model's numbers.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "undivided.hpp"

namespace lockstep {
namespace {

using test::Divided;
using test::message_of;
using test::wave;

class TensorParallelMlp : public testing::TestWithParam<int> {};

Variable loss_of(nn::Module& model, int step) {
  const auto batch = test::make_batch(5, 0.4 + step);
  return cross_entropy(model(Variable(batch.x)), batch.target);
}

Divided mlp_of(const std::vector<std::int64_t>& hidden, double dropout = 0.0) {
  const auto make = [=] {
    return nn::mlp({6}, 4, hidden, nn::Head::linear,
                   {.activation = nn::MlpLayers::Activation::gelu, .dropout = dropout});
  };
  return {make, mlp_plan(*make()), loss_of};
}

TEST_P(TensorParallelMlp, TrainsAsTheUndividedModel) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(group, mlp_of({12}));
    test::expect_as_undivided(group, mlp_of({12, 8, 12}));
  });
}

TEST_P(TensorParallelMlp, TrainsAsTheUndividedModelWhereSizesDoNotDivide) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(group, mlp_of({7}));
    test::expect_as_undivided(group, mlp_of({5, 8, 11}));
  });
}

TEST_P(TensorParallelMlp, DrawsTheDropoutMasksOfTheUndividedModel) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(group, mlp_of({12, 9, 10}, 0.4));
  });
}

/// Each call gives other numbers than the one before, and all ranks the same.
void expect_new_numbers_alike(nn::Module& model, const Variable& x, ProcessGroup& group) {
  std::vector<double> before;
  for (int i = 0; i < 3; ++i) {
    const auto values = model(x).data().to(DType::f64).to_vector<double>();
    EXPECT_NE(values, before);
    before = values;
    const std::string bytes(reinterpret_cast<const char*>(values.data()), 8 * values.size());
    EXPECT_TRUE(test::same_on_all_ranks(group, bytes));
  }
}

TEST_P(TensorParallelMlp, DropsTheSameOnAllRanksWithoutAContextToo) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    nn::manual_seed(1);
    nn::Sequential model({std::make_shared<nn::Dropout>(0.5)});
    parallelize_module(model, group, {});
    expect_new_numbers_alike(model, Variable(wave({4, 32}, 0.1)), *group);
  });
}

TEST_P(TensorParallelMlp, RecurrentLayersDropTheSameOnAllRanks) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    nn::manual_seed(1);
    nn::LSTM lstm(4, 5, {.num_layers = 2, .dropout = 0.5});
    parallelize_module(lstm, group, {});
    expect_new_numbers_alike(lstm, Variable(wave({3, 6, 4}, 0.1, DType::f32)), *group);
  });
}

TEST_P(TensorParallelMlp, DropoutOfWholeChannelsTakesNoStyle) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    nn::Sequential model({std::make_shared<nn::Dropout1d>(0.5)});
    EXPECT_EQ(message_of<InputError>([&] {
                parallelize_module(model, group, {{"0", std::make_shared<SequenceParallel>()}});
              }),
              "SequenceParallel is for LayerNorm, RMSNorm and Dropout; '0' is another module. "
              "Correct the plan.");
    EXPECT_EQ(message_of<InputError>([&] {
                parallelize_module(model, group, {{"0", std::make_shared<DropoutParallel>(8)}});
              }),
              "DropoutParallel is for Dropout; '0' is another module. Correct the plan.");
  });
}

TEST_P(TensorParallelMlp, GathersOutputsAndSplitsInputsIfAsked) {
  const auto make = [] {
    return std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
        std::make_shared<nn::Linear>(6, 9), std::make_shared<nn::GELU>(),
        std::make_shared<nn::Linear>(9, 4, false)});
  };
  const ParallelPlan plan{
      {"0", std::make_shared<ColwiseParallel>(ColwiseOptions{.gather_output = true})},
      {"2", std::make_shared<RowwiseParallel>(RowwiseOptions{.split_input = true})}};
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(group, {make, plan, loss_of});
  });
}

TEST_P(TensorParallelMlp, TakesRankZerosWeights) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    nn::manual_seed(static_cast<std::uint64_t>(group->rank()));
    const auto model = nn::mlp({6}, 4, {12});
    nn::manual_seed(0);
    const auto of_zero = nn::mlp({6}, 4, {12});
    parallelize_module(*model, group, mlp_plan(*model));
    const StateDict expected = of_zero->state_dict();
    for (const auto& entry : model->state_dict()) {
      EXPECT_EQ(test::max_difference(entry.tensor, test::part_of(expected.at(entry.name), entry)),
                0.0)
          << entry.name;
    }
  });
}

TEST_P(TensorParallelMlp, HoldsItsShareOfTheParameters) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = nn::mlp({6}, 4, {12});
    parallelize_module(*model, group, mlp_plan(*model));
    const std::int64_t columns =
        12 * (group->rank() + 1) / group->size() - 12 * group->rank() / group->size();
    EXPECT_EQ(model->parameter_count(), columns * (6 + 1 + 4) + 4);
    const StateDict state = model->state_dict();
    EXPECT_EQ(state.find("fc2.weight")->placement.global, (Shape{4, 12}));
    EXPECT_FALSE(state.find("fc2.bias")->placement.sharded);
  });
}

TEST_P(TensorParallelMlp, RefusesAWrongPlanOnEveryRank) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto refused = [&](const ParallelPlan& plan) {
      const auto model =
          nn::mlp({6}, 4, {12}, nn::Head::linear, {.norm = nn::MlpLayers::Norm::layer});
      return message_of<InputError>([&] { parallelize_module(*model, group, plan); });
    };
    const auto column = std::make_shared<ColwiseParallel>();
    EXPECT_EQ(refused({{"fc7", column}}).substr(0, 56),
              "the pattern 'fc7' matches no module of the model. Did yo");
    EXPECT_EQ(refused({{"norm1", column}}),
              "ColwiseParallel is for Linear; 'norm1' is another module. Correct the plan.");
    EXPECT_EQ(refused({{"fc1", column}, {"fc*", column}}),
              "'fc1' is shared out already when the pattern 'fc*' names it. Correct the plan.");
    EXPECT_EQ(refused({{"fc1", std::make_shared<ColwiseParallel>(ColwiseOptions{.units = 5})}}),
              "'fc1' has 12 outputs, which are not 1 parts of 5 equal units");
    const std::string norm = message_of<InputError>([&] {
      const auto model =
          nn::mlp({6}, 4, {12}, nn::Head::linear, {.norm = nn::MlpLayers::Norm::layer});
      static_cast<void>(mlp_plan(*model));
    });
    EXPECT_EQ(
        norm,
        "mlp_plan: 'norm1' lies between 'fc1' and its partner, where a rank has a part of the "
        "features only. Build the mlp without norms.");
    if (group->size() == 1) return;
    EXPECT_EQ(refused({{"fc1", std::make_shared<ColwiseParallel>(ColwiseOptions{.units = 1})}}),
              "'fc1' has 1 units of outputs, fewer than the " + std::to_string(group->size()) +
                  " ranks that share them out. Use a group of at most 1 ranks.");
    const ParallelPlan mine{{group->rank() == 0 ? "fc1" : "fc2", column}};
    EXPECT_EQ(
        refused(mine),
        "parallelize_module: ranks 0 and 1 have different models or plans. Give all ranks the "
        "same.");
  });
}

TEST_P(TensorParallelMlp, RefusesANullGroup) {
  const auto model = nn::mlp({6}, 4, {12});
  EXPECT_EQ(message_of<InputError>([&] { parallelize_module(*model, nullptr, {}); }),
            "parallelize_module needs a group, not a null pointer.");
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelMlp, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
