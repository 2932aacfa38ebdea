#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/sgd.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using test::parameter;
using test::set_grad;
using test::values;

constexpr optim::SgdOptions damped{.lr = 0.5, .momentum = 0.5, .dampening = 0.5};

TEST(Sgd, FirstStepTakesTheWholeGradientDespiteDampening) {
  const auto p = parameter("w", {1.0F, 2.0F});
  optim::SGD sgd({p}, damped);
  set_grad(p.variable, 1.0);
  sgd.step();
  EXPECT_EQ(values(p), (std::vector<float>{0.5F, 1.5F}));
  sgd.step();  // b = 0.5 * 1 + 0.5 * 1
  EXPECT_EQ(values(p), (std::vector<float>{0.0F, 1.0F}));
}

TEST(Sgd, FirstStepIsEachParametersOwn) {
  const auto early = parameter("early", {0.0F}), late = parameter("late", {0.0F});
  optim::SGD sgd({early, late}, damped);
  set_grad(early.variable, 1.0);
  sgd.step();
  EXPECT_EQ(values(late), std::vector<float>{0.0F});
  set_grad(late.variable, 1.0);
  sgd.step();
  EXPECT_EQ(values(late), std::vector<float>{-0.5F});  // undamped: its first gradient
}

TEST(Sgd, ParameterWithoutGradientStaysDespiteWeightDecay) {
  const auto p = parameter("w", {1.0F});
  optim::SGD sgd({p}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  set_grad(p.variable, 1.0);
  sgd.zero_grad();
  sgd.step();
  EXPECT_EQ(values(p), std::vector<float>{1.0F});
}

TEST(Sgd, InfiniteGradientNeverBecomesNaNOnTheFirstStep) {
  const auto p = parameter("w", {1.0F});
  optim::SGD sgd({p}, {.lr = 0.1, .momentum = 0.9});
  set_grad(p.variable, std::numeric_limits<double>::infinity());
  sgd.step();
  EXPECT_EQ(values(p), std::vector<float>{-std::numeric_limits<float>::infinity()});
}

TEST(Sgd, StateIsNamedByParameterAndSlot) {
  const auto p = parameter("conv1.weight", {1.0F, 2.0F});
  const optim::SGD sgd({p}, {.momentum = 0.9});
  const StateDict state = sgd.state_dict();
  ASSERT_EQ(state.size(), 2U);
  EXPECT_EQ(state.at("conv1.weight/momentum_buffer").shape(), p.variable.shape());
  EXPECT_EQ(state.at("conv1.weight/step").dtype(), DType::i64);
  EXPECT_EQ(optim::SGD({p}, {}).state_dict().size(), 0U);
}

TEST(Sgd, StateOfAnotherModelIsRefusedAndNothingIsLoaded) {
  const auto p = parameter("w", {1.0F}), other = parameter("v", {1.0F});
  optim::SGD sgd({p}, {.momentum = 0.9}), others({other}, {.momentum = 0.9});
  set_grad(other.variable, 1.0);
  others.step();
  EXPECT_THROW(sgd.load_state_dict(others.state_dict()), Error);
  EXPECT_EQ(sgd.state_dict().at("w/momentum_buffer").item(), 0.0);
}

TEST(Sgd, OptionsOutOfRangeAreRefused) {
  const auto p = parameter("w", {1.0F});
  EXPECT_THROW(optim::SGD({p}, {.lr = -0.1}), InputError);
  EXPECT_THROW(optim::SGD({p}, {.lr = std::nan("")}), InputError);
  EXPECT_THROW(optim::SGD({p}, {.momentum = -1.0}), InputError);
  EXPECT_THROW(optim::SGD({p}, {.weight_decay = -1.0}), InputError);
  EXPECT_THROW(optim::SGD({p}, {.nesterov = true}), InputError);
  EXPECT_THROW(optim::SGD({p}, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}), InputError);
}

TEST(Sgd, ParametersThatCannotBeOptimizedAreRefused) {
  const auto p = parameter("w", {1.0F});
  EXPECT_THROW(optim::SGD({}, {}), Error);
  EXPECT_THROW(optim::SGD({p, p}, {}), Error);
  EXPECT_THROW(optim::SGD({p, {"v", p.variable}}, {}), Error);
  EXPECT_THROW(optim::SGD({{"counts", Variable(Tensor::zeros({1}, DType::i64))}}, {}), Error);
}

TEST(Sgd, LearningRateOfTheNextStepCanBeSet) {
  const auto p = parameter("w", {1.0F});
  const auto optimizer = optim::make_optimizer({.kind = optim::SgdOptions{.lr = 0.5}}, {p});
  EXPECT_EQ(optimizer->lr(), 0.5);
  optimizer->set_lr(0.25);
  set_grad(p.variable, 1.0);
  optimizer->step();
  EXPECT_EQ(values(p), std::vector<float>{0.75F});
}

/// The rows of a parameter are divided among ranks; its state is divided in the same way.
TEST(Sgd, PlacesItsStateWithTheParameter) {
  struct Shard : nn::Module {
    Shard() {
      const Tensor rows = Tensor::zeros({2, 3});
      register_parameter("rows", rows, Placement::rows(rows, 4, 8));
      register_parameter("all", Tensor::zeros({3}));
    }
    Variable forward(const Variable& x) override { return x; }
  };
  const Shard model;
  const auto of_model = model.state_dict();
  EXPECT_EQ(of_model.find("rows")->placement, Placement::slab({8, 3}, {4, 0}));
  EXPECT_FALSE(of_model.find("all")->placement.sharded);
  optim::SGD sgd(model.named_parameters(), {.momentum = 0.9});
  sgd.take_placements(of_model);
  const auto state = sgd.state_dict();
  EXPECT_EQ(state.find("rows/momentum_buffer")->placement, of_model.find("rows")->placement);
  EXPECT_FALSE(state.find("all/momentum_buffer")->placement.sharded);
  EXPECT_FALSE(state.find("rows/step")->placement.sharded);
}

}  // namespace
}  // namespace lockstep
