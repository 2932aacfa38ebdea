#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep {
namespace {

nn::NamedParameter parameter(const std::string& name, const std::vector<float>& values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {name, Variable(Tensor::from(values, {n}), true)};
}

void set_grad(const Variable& variable, double value) {
  variable.grad_buffer().fill(value);
  variable.mark_grad_present();
}

std::vector<float> values(const nn::NamedParameter& p) {
  return p.variable.data().to_vector<float>();
}

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

/// Saves after `before` steps, continues in a new optimizer, compares with one that never stopped.
void expect_exact_resume(int before) {
  SCOPED_TRACE("saved after " + std::to_string(before) + " steps");
  const std::vector<float> start{0.3F, -1.7F, 2.9F};
  const auto step = [](optim::SGD& sgd, const nn::NamedParameter& p, int s) {
    set_grad(p.variable, std::sin(1.0 + s));
    sgd.step();
  };
  constexpr optim::SgdOptions options{
      .lr = 0.07, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01};

  const auto whole = parameter("w", start), first = parameter("w", start);
  optim::SGD uninterrupted({whole}, options), saved({first}, options);
  for (int s = 0; s < 6; ++s) step(uninterrupted, whole, s);
  for (int s = 0; s < before; ++s) step(saved, first, s);

  const auto second = parameter("w", values(first));
  optim::SGD resumed({second}, options);
  resumed.load_state_dict(saved.state_dict());
  for (int s = before; s < 6; ++s) step(resumed, second, s);
  EXPECT_EQ(values(second), values(whole));
}

TEST(Sgd, ResumedOptimizerHasTheSameBits) {
  for (const int before : {0, 1, 3}) expect_exact_resume(before);
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
  EXPECT_THROW(optim::SGD({{"frozen", Variable(Tensor::zeros({1}))}}, {}), Error);
}

TEST(Sgd, LearningRateOfTheNextStepCanBeSet) {
  const auto p = parameter("w", {1.0F});
  const auto optimizer = optim::make_optimizer({.lr = 0.5}, {p});
  EXPECT_EQ(optimizer->lr(), 0.5);
  optimizer->set_lr(0.25);
  set_grad(p.variable, 1.0);
  optimizer->step();
  EXPECT_EQ(values(p), std::vector<float>{0.75F});
}

TEST(Sgd, StepAllocatesNothing) {
  std::vector<nn::NamedParameter> parameters;
  for (const char name : {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}) {
    parameters.push_back(parameter(std::string(1, name), std::vector<float>(100, 1.0F)));
  }
  optim::SGD sgd(parameters, {.momentum = 0.9, .weight_decay = 0.1});
  for (const auto& p : parameters) set_grad(p.variable, 1.0);
  sgd.step();
  const auto before = test::allocation_count();
  const auto memory_before = memory_stats().system_allocations;
  for (int s = 0; s < 20; ++s) sgd.step();
  EXPECT_EQ(test::allocation_count() - before, 0);
  EXPECT_EQ(memory_stats().system_allocations - memory_before, 0);
}

}  // namespace
}  // namespace lockstep
