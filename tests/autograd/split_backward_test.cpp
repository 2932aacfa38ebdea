// A backward pass in two parts: the same bits as in one, and no more work.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/autograd/split_backward.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>

#include "count_node.hpp"

namespace lockstep {
namespace {

using test::CountNode;

using Values = std::vector<float>;

Tensor wave(const Shape& shape) {
  Values values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<double>(i * 37 % 101) / 50.0 - 1.0);
  return Tensor::from(values, shape);
}

std::vector<Values> gradients_of(const nn::Module& module) {
  std::vector<Values> all;
  for (const Variable& parameter : module.parameters()) {
    all.push_back(parameter.grad().defined() ? parameter.grad().to_vector<float>() : Values());
  }
  return all;
}

/// Runs `loss_of` on the module twice, added up, by one pass and by two parts.
template <class LossOf>
void expect_the_same_bits(nn::Module& module, const Variable& x, const LossOf& loss_of) {
  const auto run = [&](bool splits) {
    module.zero_grad();
    if (x.requires_grad()) x.zero_grad();
    for (const double seed : {1.0, 0.25}) {
      const Variable loss = loss_of();
      if (!splits) {
        loss.backward(seed);
        continue;
      }
      const auto before = gradients_of(module);
      SplitBackward pass(loss, {}, seed, x);
      EXPECT_EQ(gradients_of(module), before) << "parameters wait for the second part";
      EXPECT_EQ(x.requires_grad(), x.grad().defined());
      pass.run_rest();
    }
    auto all = gradients_of(module);
    if (x.requires_grad()) all.push_back(x.grad().to_vector<float>());
    return all;
  };
  const auto whole = run(false);
  EXPECT_EQ(run(true), whole);
  EXPECT_FALSE(whole.front().empty());
}

TEST(SplitBackward, OfAConvnetGivesTheBitsOfOnePass) {
  nn::manual_seed(3);
  const auto model = nn::convnet({1, 16, 16}, 4, 0.0);
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 3, 1});
  for (const bool wants_input : {false, true}) {
    const Variable x(wave({3, 1, 16, 16}), wants_input);
    expect_the_same_bits(*model, x, [&] { return nll_loss(model->forward(x), target); });
  }
}

TEST(SplitBackward, OfAGptGivesTheBitsOfOnePassAlsoWhereBlocksAreRecomputed) {
  for (const bool recompute : {false, true}) {
    nn::manual_seed(3);
    nn::Gpt gpt({.vocabulary = 11,
                 .context = 4,
                 .width = 8,
                 .depth = 2,
                 .heads = 2,
                 .recompute = recompute});
    const Tensor tokens = Tensor::from(std::vector<std::int64_t>{1, 5, 3, 9, 2, 10, 7, 7}, {2, 4});
    expect_the_same_bits(gpt, Variable(tokens), [&] { return gpt.loss(Variable(tokens), tokens); });
  }
}

TEST(SplitBackward, KeepsGradientsThatAnOperationHandsOn) {
  // The sum hands its gradient on to x, to which the product adds: the bias must not see that.
  struct Biased : nn::Module {
    Variable forward(const Variable& x) override { return (x + bias) * x; }
    Variable bias = register_parameter("bias", wave({5}));
  } module;
  const Variable input(wave({5}), true);
  expect_the_same_bits(module, input, [&] {
    const Variable x = mul(input, 2.0);
    return sum(x + module.bias) + sum(x * x) + sum(module(x));
  });
}

TEST(SplitBackward, RunsAnOperationOnceUnlessItHasBothKindsOfInputs) {
  const Variable x(wave({3}), true), w(wave({3}), true);
  int of_input = 0, of_weight = 0, between = 0, hooks = 0;
  const GradHook hook = w.add_grad_hook([&] { ++hooks; });
  const Variable a = record<CountNode>(x.data(), {&x}, of_input);
  const Variable b = record<CountNode>(w.data(), {&w}, of_weight);
  const Variable c = a * b;
  const Variable d = record<CountNode>(c.data(), {&c}, between);
  SplitBackward pass(sum(d), {}, 1.0, x);
  EXPECT_EQ(of_input, 1);
  EXPECT_EQ(between, 1);
  EXPECT_EQ(of_weight, 0);
  EXPECT_EQ(hooks, 0);
  EXPECT_EQ(x.grad().to_vector<float>(), w.data().to_vector<float>());
  pass.run_rest();
  EXPECT_EQ(of_input, 1);
  EXPECT_EQ(between, 1);
  EXPECT_EQ(of_weight, 1);
  EXPECT_EQ(hooks, 1);
  EXPECT_EQ(w.grad().to_vector<float>(), x.data().to_vector<float>());
}

TEST(SplitBackward, RefusesLeavesWhoseObserverAwaitsAWholePass) {
  struct Observer : PassObserver {
    void pass_is_over() override {}
    [[nodiscard]] bool awaits_pass() const noexcept override { return awaits; }
    bool awaits = true;
  } observer;
  const Variable x(wave({3}), true), w(wave({3}), true);
  const GradHook hook = w.add_grad_hook([] {}, &observer);
  EXPECT_THROW(SplitBackward(sum(x * w), {}, 1.0, x), Error);
  observer.awaits = false;
  EXPECT_NO_THROW(SplitBackward(sum(x * w), {}, 1.0, x).run_rest());
}

TEST(SplitBackward, TakesAGradientAndRefusesWhatBackwardRefuses) {
  const Variable x(wave({3}), true), w(wave({3}), true);
  const Variable y = x * w;
  EXPECT_THROW(SplitBackward(y, {}, 1.0, x), Error) << "no gradient of three elements";
  EXPECT_THROW(SplitBackward(y, wave({2}), 1.0, x), ShapeError);
  EXPECT_THROW(SplitBackward(Variable(wave({1})), {}, 1.0, x), Error);
  SplitBackward pass(y, Tensor::from({1.F, 0.F, 2.F}), 1.0, x);
  pass.run_rest();
  const auto values = x.data().to_vector<float>();
  EXPECT_EQ(w.grad().to_vector<float>(), (Values{values[0], 0.F, 2.F * values[2]}));
  EXPECT_THROW(SplitBackward(y, wave({3}), 1.0, x), Error) << "the graph is freed";
}

}  // namespace
}  // namespace lockstep
