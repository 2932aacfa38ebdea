// A graph may be differentiated once, or as often as it is retained.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include <support/message_of.hpp>
#include "gradient_check.hpp"
#include "operations/operations.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// Two losses on one trunk h = exp(w).
struct TwoLosses {
  Variable w{Tensor::from(std::vector<double>{0.5, -1.0}, {2}), true};
  Variable trunk = exp(w);
  Variable first = sum(trunk);
  Variable second = sum(mul(trunk, trunk));
};

TEST(SecondBackward, ThroughAFreedTrunkNamesTheRemedies) {
  const TwoLosses losses;
  losses.first.backward();
  const auto before = losses.w.grad().to_vector<double>();
  const auto message = message_of<Error>([&] { losses.second.backward(); });
  EXPECT_NE(message.find("a second time"), std::string::npos) << message;
  EXPECT_NE(message.find("add them and call backward() once"), std::string::npos) << message;
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
  EXPECT_EQ(losses.w.grad().to_vector<double>(), before) << "nothing was added";
}

TEST(SecondBackward, FromTheSameLossThrowsToo) {
  const TwoLosses losses;
  losses.first.backward();
  EXPECT_NE(message_of<Error>([&] { losses.first.backward(); }).find("a second time"),
            std::string::npos);
}

TEST(SecondBackward, ThroughARetainedTrunkGivesTheGradientOfTheSum) {
  const TwoLosses retained, added;
  retained.first.backward(1.0, true);
  retained.second.backward();
  add(added.first, added.second).backward();
  // d/dw of exp(w) + exp(w)^2 is exp(w) + 2 exp(w)^2.
  const auto h = added.trunk.data().to_vector<double>();
  const auto sum = added.w.grad().to_vector<double>(),
             twice = retained.w.grad().to_vector<double>();
  for (std::size_t i = 0; i < h.size(); ++i) {
    EXPECT_DOUBLE_EQ(sum[i], h[i] + 2 * h[i] * h[i]);
    EXPECT_DOUBLE_EQ(twice[i], sum[i]);
  }
}

TEST(SecondBackward, OfARetainedGraphFreesItUnlessItIsRetainedAgain) {
  const TwoLosses losses;
  losses.first.backward(1.0, true);
  losses.first.backward(1.0, true);
  losses.first.backward();
  const auto h = losses.trunk.data().to_vector<double>(),
             grad = losses.w.grad().to_vector<double>();
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_DOUBLE_EQ(grad[i], 3 * h[i]);
  EXPECT_THROW(losses.first.backward(), Error);
}

TEST(SecondBackward, OfARetainedGraphCallsTheHookOfALeafAgain) {
  const TwoLosses losses;
  int calls = 0;
  const GradHook hook = losses.w.add_grad_hook([&] { ++calls; });
  losses.first.backward(1.0, true);
  losses.second.backward();
  EXPECT_EQ(calls, 2);
}

/// Gradients that are passed on without a copy: of a sum, a shape, a number, beside a second use.
TEST(SecondBackward, SharedGradientsOfARetainedGraphStayRight) {
  const Variable w(Tensor::from(std::vector<double>{1, 2, 3, 4}, {2, 2}), true);
  const Variable a = mul(w, 3.0), b = add(a, 1.0), c = add(reshape(b, {4}), reshape(a, {4}));
  const Variable loss = sum(mul(add(c, c), c));  // 2 c^2, c = 6 w + 1: 24 c
  for (int pass = 1; pass <= 3; ++pass) {
    w.zero_grad();
    loss.backward(1.0, true);
    EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{168, 312, 456, 600})) << pass;
  }
}

class Retained : public testing::TestWithParam<DType> {};

TEST_P(Retained, EveryOperationGivesTheSameBitsAgain) {
  for (const Operation& operation : all_operations()) {
    const Inputs inputs = make_inputs(operation, GetParam());
    const Variable y = operation.apply(inputs);
    const Variable loss = weighted_sum(y, random_tensor(y.shape(), 60).to(GetParam()));
    std::vector<std::vector<double>> first, second;
    for (auto* gradients : {&first, &second}) {
      for (const Variable& input : inputs) input.zero_grad();
      loss.backward(1.0, true);
      for (const Variable& input : inputs) {
        gradients->push_back(input.grad().to(DType::f64).to_vector<double>());
      }
    }
    EXPECT_EQ(first, second) << operation.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, Retained, testing::Values(DType::f32, DType::f64));

TEST(SecondBackward, AfterAnErrorALeafIsAsBefore) {
  const TwoLosses losses;
  losses.first.backward();
  EXPECT_THROW(losses.second.backward(), Error);
  losses.w.zero_grad();
  sum(losses.w).backward();
  EXPECT_EQ(losses.w.grad().to_vector<double>(), (std::vector<double>{1, 1}));
}

TEST(SecondBackward, OfAResultIsNotOfALeaf) {
  const TwoLosses losses;
  losses.first.backward();
  EXPECT_FALSE(losses.trunk.is_leaf());
  EXPECT_TRUE(losses.w.is_leaf());
}

}  // namespace
}  // namespace lockstep::test
