#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/parameter_group.hpp>
#include <lockstep/optim/rmsprop.hpp>
#include <lockstep/optim/schedules.hpp>
#include <lockstep/optim/sgd.hpp>
#include <support/message_of.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using optim::ParameterGroup;
using test::parameter;
using test::set_grad;
using test::values;

TEST(ParameterGroups, AParameterBelongsToTheFirstMatchingGroup) {
  const std::vector<nn::NamedParameter> parameters{
      parameter("conv1.weight", {1}), parameter("conv1.bias", {1}), parameter("fc.weight", {1})};
  const std::vector<ParameterGroup> groups{{.pattern = "*.bias"}, {.pattern = "conv1.*"}};
  EXPECT_EQ(optim::group_of_each(parameters, groups), (std::vector<std::size_t>{1, 0, 2}));
}

TEST(ParameterGroups, EachHasItsFactorOfTheRateAndItsDecay) {
  const auto weight = parameter("fc.weight", {2.0F}), bias = parameter("fc.bias", {2.0F});
  optim::SGD sgd({weight, bias}, {.lr = 0.5, .weight_decay = 0.5},
                 {{.pattern = "*.bias", .lr_factor = 0.5, .weight_decay = 0.0}});
  set_grad(weight.variable, 1.0);
  set_grad(bias.variable, 1.0);
  sgd.step();
  EXPECT_EQ(values(weight)[0], 2.0F - 0.5F * (1.0F + 0.5F * 2.0F));
  EXPECT_EQ(values(bias)[0], 2.0F - 0.25F * 1.0F);
}

TEST(ParameterGroups, AScheduleMovesTheRateOfEach) {
  const auto slow = parameter("slow", {0.0F}), fast = parameter("fast", {0.0F});
  optim::SGD sgd({slow, fast}, {.lr = 1.0}, {{.pattern = "slow", .lr_factor = 0.25}});
  const auto schedule = optim::make_schedule({.kind = optim::ExponentialLR{.gamma = 0.5}}, 3, 1);
  for (int epoch = 0; epoch < 3; ++epoch) {
    set_grad(slow.variable, 1.0);
    set_grad(fast.variable, 1.0);
    optim::apply_schedule(*schedule, 1.0, epoch, 0, sgd);
    sgd.step();
  }
  EXPECT_EQ(values(fast)[0], -1.75F);
  EXPECT_EQ(values(slow)[0], -1.75F / 4);
}

TEST(ParameterGroups, APatternWithoutMatchIsRefusedNamingTheNearest) {
  const std::vector<nn::NamedParameter> parameters{parameter("conv1.weight", {1}),
                                                   parameter("fc.weight", {1})};
  try {
    optim::SGD sgd(parameters, {}, {{.pattern = "conv.weight"}});
    ADD_FAILURE() << "not refused";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "the pattern 'conv.weight' matches no parameter of the model. Did you mean "
                 "conv1.weight?");
  }
}

TEST(ParameterGroups, EachHasOptionsOfItsOwn) {
  const auto a = parameter("a", {1.0F}), b = parameter("b", {1.0F});
  optim::SGD sgd({a, b}, {.lr = 0.5, .momentum = 0.5},
                 {{.pattern = "b", .lr = 0.25, .momentum = 0.0}});
  for (int step = 0; step < 2; ++step) {
    set_grad(a.variable, 1.0);
    set_grad(b.variable, 1.0);
    sgd.step();
  }
  EXPECT_EQ(values(a)[0], 1.0F - 0.5F * 1.0F - 0.5F * 1.5F);
  EXPECT_EQ(values(b)[0], 1.0F - 0.25F * 1.0F - 0.25F * 1.0F);
}

/// Checks that a group's option acts: two parameters with the same gradients, one of them in a
/// group, change as under two optimizers with these options.
template <class Optimizer, class Options>
void expect_as_an_optimizer_of_its_own(const Options& usual, const Options& changed,
                                       const ParameterGroup& group) {
  const auto a = parameter("a", {1.0F, -2.0F}), b = parameter("b", {1.0F, -2.0F});
  const auto a2 = parameter("a", {1.0F, -2.0F}), b2 = parameter("b", {1.0F, -2.0F});
  Optimizer together({a, b}, usual, {group}), of_a({a2}, usual), of_b({b2}, changed);
  for (int step = 0; step < 4; ++step) {
    for (const auto& p : {a, b, a2, b2}) set_grad(p.variable, 0.5 + step);
    together.step();
    of_a.step();
    of_b.step();
  }
  EXPECT_EQ(values(a), values(a2));
  EXPECT_EQ(values(b), values(b2));
  EXPECT_NE(values(a), values(b));
}

TEST(ParameterGroups, EveryOptionActsAsInAnOptimizerOfItsOwn) {
  using namespace optim;
  const SgdOptions sgd{.lr = 0.1, .momentum = 0.5};
  expect_as_an_optimizer_of_its_own<SGD>(sgd, {.lr = 0.1, .momentum = 0.9},
                                         {.pattern = "b", .momentum = 0.9});
  expect_as_an_optimizer_of_its_own<SGD>(sgd, {.lr = 0.1, .momentum = 0.5, .dampening = 0.25},
                                         {.pattern = "b", .dampening = 0.25});
  expect_as_an_optimizer_of_its_own<SGD>(sgd, {.lr = 0.1, .momentum = 0.5, .nesterov = true},
                                         {.pattern = "b", .nesterov = true});
  expect_as_an_optimizer_of_its_own<SGD>(SgdOptions{.lr = 0.1}, {.lr = 0.1, .momentum = 0.5},
                                         {.pattern = "b", .momentum = 0.5});
  expect_as_an_optimizer_of_its_own<Adam>(AdamOptions{}, {.betas = {0.5, 0.9}},
                                          {.pattern = "b", .betas = {{0.5, 0.9}}});
  expect_as_an_optimizer_of_its_own<Adam>(AdamOptions{}, {.eps = 0.1},
                                          {.pattern = "b", .eps = 0.1});
  expect_as_an_optimizer_of_its_own<AdamW>(AdamWOptions{}, {.weight_decay = 0.5},
                                           {.pattern = "b", .weight_decay = 0.5});
  expect_as_an_optimizer_of_its_own<RMSprop>(RmspropOptions{}, {.alpha = 0.5},
                                             {.pattern = "b", .alpha = 0.5});
  expect_as_an_optimizer_of_its_own<RMSprop>(RmspropOptions{}, {.momentum = 0.5},
                                             {.pattern = "b", .momentum = 0.5});
  expect_as_an_optimizer_of_its_own<RMSprop>(RmspropOptions{}, {.centered = true},
                                             {.pattern = "b", .centered = true});
  expect_as_an_optimizer_of_its_own<Adagrad>(AdagradOptions{}, {.lr_decay = 0.5},
                                             {.pattern = "b", .lr_decay = 0.5});
  expect_as_an_optimizer_of_its_own<Adagrad>(AdagradOptions{}, {.initial_accumulator_value = 2.0},
                                             {.pattern = "b", .initial_accumulator_value = 2.0});
  expect_as_an_optimizer_of_its_own<Adadelta>(AdadeltaOptions{}, {.rho = 0.5},
                                              {.pattern = "b", .rho = 0.5});
  expect_as_an_optimizer_of_its_own<NAdam>(NAdamOptions{}, {.momentum_decay = 0.5},
                                           {.pattern = "b", .momentum_decay = 0.5});
  expect_as_an_optimizer_of_its_own<NAdam>(NAdamOptions{.weight_decay = 0.5},
                                           {.weight_decay = 0.5, .decoupled_weight_decay = true},
                                           {.pattern = "b", .decoupled_weight_decay = true});
  expect_as_an_optimizer_of_its_own<ASGD>(AsgdOptions{.lr = 0.1}, {.lr = 0.1, .lambd = 0.5},
                                          {.pattern = "b", .lambd = 0.5});
  expect_as_an_optimizer_of_its_own<LARS>(LarsOptions{}, {.trust_coefficient = 0.5},
                                          {.pattern = "b", .trust_coefficient = 0.5});
}

TEST(ParameterGroups, AmsgradIsAnOptionOfItsOwn) {
  const auto a = parameter("a", {1.0F}), b = parameter("b", {1.0F});
  const auto a2 = parameter("a", {1.0F}), b2 = parameter("b", {1.0F});
  optim::Adam together({a, b}, {}, {{.pattern = "b", .amsgrad = true}}), of_a({a2}),
      of_b({b2}, {.amsgrad = true});
  for (int step = 0; step < 4; ++step) {  // the second moments fall
    for (const auto& p : {a, b, a2, b2}) set_grad(p.variable, step == 0 ? 5.0 : 0.01);
    together.step();
    of_a.step();
    of_b.step();
  }
  EXPECT_EQ(values(a), values(a2));
  EXPECT_EQ(values(b), values(b2));
  EXPECT_NE(values(a), values(b));
}

TEST(ParameterGroups, AnOptionThatTheOptimizerLacksIsRefused) {
  const auto p = parameter("w", {1.0F});
  const auto message = test::message_of<InputError>([&] {
    optim::SGD({p}, {}, {{.pattern = "w", .betas = {{0.9, 0.99}}}});
  });
  EXPECT_EQ(message, "parameter group 'w': SGD has no option betas");
  EXPECT_THROW(optim::Adam({p}, {}, {{.pattern = "w", .momentum = 0.5}}), InputError);
  EXPECT_THROW(optim::Adam({p}, {}, {{.pattern = "w", .betas = {{1.5, 0.9}}}}), InputError);
  EXPECT_THROW(optim::SGD({p}, {}, {{.pattern = "w", .lr_factor = 2.0, .lr = 0.1}}), InputError);
  EXPECT_THROW(optim::SGD({p}, {}, {{.pattern = "w", .lr = -0.1}}), InputError);
}

// torch.optim.lr_scheduler computes each group's rate from its own base rate; eta_min is for all.
TEST(ParameterGroups, AScheduleActsOnEachBaseRate) {
  const auto slow = parameter("slow", {0.0F}), fast = parameter("fast", {0.0F});
  optim::SGD sgd({slow, fast}, {.lr = 1.0}, {{.pattern = "slow", .lr = 0.5}});
  const auto cosine =
      optim::make_schedule({.kind = optim::CosineAnnealingLR{.t_max = 4, .eta_min = 0.25}}, 4, 1);
  optim::apply_schedule(*cosine, 1.0, 0, 0, sgd);
  EXPECT_EQ(sgd.lr(), 1.0);
  EXPECT_EQ(sgd.group_lr(0), 0.5);
  optim::apply_schedule(*cosine, 1.0, 2, 0, sgd);
  EXPECT_DOUBLE_EQ(sgd.lr(), 0.25 + 0.75 / 2);
  EXPECT_DOUBLE_EQ(sgd.group_lr(0), 0.25 + 0.25 / 2);
  optim::apply_schedule(*cosine, 1.0, 4, 0, sgd);
  EXPECT_DOUBLE_EQ(sgd.group_lr(0), 0.25);
  sgd.set_lr(0.1);
  EXPECT_DOUBLE_EQ(sgd.group_lr(0), 0.05);
}

TEST(ParameterGroups, APartHasThoseThatFitItsParameters) {
  const auto a = parameter("a.weight", {1}), b = parameter("b.weight", {1}),
             bias = parameter("b.bias", {1});
  const optim::OptimizerOptions options{
      .kind = optim::LarsOptions{.not_adapted = {"*.bias", "a.*"}},
      .group_pattern = {"a.*", "*.bias", "b.*"},
      .group_lr_factor = {2.0, 3.0, 4.0}};
  const auto own = optim::options_of_part(options, {a, b, bias}, {b, bias});
  EXPECT_EQ(own.kind.get_if<optim::LarsOptions>()->not_adapted, std::vector<std::string>{"*.bias"});
  EXPECT_EQ(own.group_pattern, (std::vector<std::string>{"*.bias", "b.*"}));
  EXPECT_EQ(own.group_lr_factor, (std::vector<double>{3.0, 4.0}));
  EXPECT_TRUE(own.group_weight_decay.empty());
  EXPECT_THROW(static_cast<void>(optim::options_of_part(options, {b, bias}, {b})), InputError);
}

TEST(FrozenParameters, AreSkippedUntilTheyHaveAGradient) {
  const auto frozen = parameter("frozen", {1.0F}), trained = parameter("trained", {1.0F});
  frozen.variable.set_requires_grad(false);
  optim::AdamW adamw({frozen, trained}, {.lr = 0.5, .weight_decay = 0.5});
  set_grad(trained.variable, 1.0);
  adamw.step();
  EXPECT_EQ(values(frozen)[0], 1.0F) << "no decay either";
  EXPECT_NE(values(trained)[0], 1.0F);
  frozen.variable.set_requires_grad(true);
  set_grad(frozen.variable, 1.0);
  adamw.step();
  EXPECT_NE(values(frozen)[0], 1.0F);
}

TEST(ParameterGroups, NumbersOutOfRangeAreRefused) {
  const auto p = parameter("w", {1.0F});
  for (const double bad : {-1.0, std::nan("")}) {
    EXPECT_THROW(optim::SGD({p}, {}, {{.pattern = "w", .lr_factor = bad}}), InputError);
    EXPECT_THROW(optim::AdamW({p}, {}, {{.pattern = "w", .weight_decay = bad}}), InputError);
  }
}

}  // namespace
}  // namespace lockstep
