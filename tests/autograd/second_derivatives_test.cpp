// grad() with create_graph: gradients of gradients against formulas, and what it promises.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include <lockstep/autograd/check_gradients.hpp>
#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/staged_backward.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include <support/message_of.hpp>
#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

using Values = std::vector<double>;
constexpr GradOptions keep{.create_graph = true};

Variable leaf(const Values& values) {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), true);
}
Variable leaf(const Shape& shape, std::uint64_t seed) {
  return Variable(random_tensor(shape, seed), true);
}
Values of(const Variable& v) { return v.data().to_vector<double>(); }

/// dy/dx of each element, where y[i] depends on x[i] only.
Variable slope(const Variable& y, const Variable& x) { return grad(sum(y), x, keep); }

template <class Formula>
void expect_each(const Variable& y, const Variable& x, const Formula& formula) {
  const Values values = of(y), at = of(x);
  ASSERT_EQ(values.size(), at.size());
  for (std::size_t i = 0; i < at.size(); ++i) {
    EXPECT_NEAR(values[i], formula(at[i]), 1e-13 * (1 + std::abs(formula(at[i])))) << at[i];
  }
}

TEST(SecondDerivative, OfSineIsMinusSineAndTheFourthIsSine) {
  const Variable x = leaf({-2.0, -0.3, 0.0, 0.7, 3.1});
  const Variable second = slope(slope(sin(x), x), x);
  expect_each(second, x, [](double at) { return -std::sin(at); });
  expect_each(slope(slope(second, x), x), x, [](double at) { return std::sin(at); });
}

TEST(SecondDerivative, OfACubeIsLinearAndTheFourthHasNoGraph) {
  const Variable x = leaf({-1.5, 0.0, 2.0});
  const Variable cube = x * x * x;
  const Variable second = slope(slope(cube, x), x), third = slope(second, x);
  expect_each(second, x, [](double at) { return 6 * at; });
  expect_each(third, x, [](double) { return 6.0; });
  expect_each(slope(slope(pow(x, 3.0), x), x), x, [](double at) { return 6 * at; });
  EXPECT_FALSE(third.requires_grad());
  const auto message = message_of<Error>([&] { static_cast<void>(slope(third, x)); });
  EXPECT_NE(message.find("create_graph"), std::string::npos) << message;
}

TEST(SecondDerivative, OfTanhAndTheThirdAreTheirFormulas) {
  const Variable x = leaf({-2.0, -0.4, 0.0, 0.1, 1.3});
  const Variable second = slope(slope(tanh(x), x), x);
  expect_each(second, x, [](double at) {
    const double t = std::tanh(at);
    return -2 * t * (1 - t * t);
  });
  expect_each(slope(second, x), x, [](double at) {
    const double t = std::tanh(at);
    return -2 * (1 - t * t) * (1 - 3 * t * t);
  });
}

TEST(SecondDerivative, OfErfIsItsFormula) {
  const Variable x = leaf({-1.0, 0.0, 0.5});
  expect_each(slope(slope(erf(x), x), x), x,
              [](double at) { return -4 * at / std::sqrt(std::acos(-1.0)) * std::exp(-at * at); });
}

/// Row i of the Hessian of `loss`.
Variable hessian_row(const Variable& loss, const Variable& x, std::int64_t i) {
  return grad(sum(narrow(grad(loss, x, keep), 0, i, 1)), x, keep);
}

TEST(SecondDerivative, HessianOfAQuadraticFormIsTheMatrixAndItsTranspose) {
  const Variable x = leaf({4}, 1), a(random_tensor({4, 4}, 2));
  const Variable loss = sum(x * matmul(a, x));
  const auto matrix = of(a);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto row = of(hessian_row(loss, x, static_cast<std::int64_t>(i)));
    for (std::size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(row[j], matrix[4 * i + j] + matrix[4 * j + i], 1e-15);
    }
  }
}

TEST(SecondDerivative, HessianTimesAVectorAndForwardDerivativesComeOutOfGradOutputs) {
  const Variable x = leaf({3}, 1), v(random_tensor({3}, 2)), a(random_tensor({3, 3}, 3));
  const Variable y = matmul(a, x) * x;
  // J^T u is linear in u: its gradient by u, weighted by v, is J v.
  const Variable u = leaf({3}, 4);
  const Variable pulled =
      grad(y, std::span(&x, 1), {.grad_outputs = std::span(&u, 1), .create_graph = true}).front();
  const auto pushed =
      of(grad(pulled, std::span(&u, 1), {.grad_outputs = std::span(&v, 1)}).front());
  const auto at = of(x), direction = of(v), matrix = of(a);
  for (std::size_t i = 0; i < 3; ++i) {
    double expected = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      expected += matrix[3 * i + j] * (at[j] * direction[i] + direction[j] * at[i]);
    }
    EXPECT_NEAR(pushed[i], expected, 1e-15);
  }
}

TEST(SecondDerivative, KeepsTheGraphTouchesNoLeafAndIgnoresNoGrad) {
  const Variable x = leaf({2.0}), w = leaf({3.0});
  const Variable y = w * x * x;
  const NoGradGuard guard;
  const Variable slope_of_x = grad(y, x, keep);
  EXPECT_EQ(of(slope_of_x), Values{12});
  EXPECT_FALSE(x.grad().defined());
  EXPECT_FALSE(grad_enabled());
  EXPECT_EQ(of(grad(slope_of_x, x, {.retain_graph = true})), Values{6});
  EXPECT_EQ(of(grad(slope_of_x, w, {.retain_graph = true})), Values{4});
  y.backward();  // the graph is there
  EXPECT_EQ(w.grad().to_vector<double>(), Values{4});
}

TEST(SecondDerivative, WithoutCreateGraphAGradientIsAValue) {
  const Variable x = leaf({2.0});
  const Variable y = x * x;
  const Variable gradient = grad(y, x);
  EXPECT_FALSE(gradient.requires_grad());
  EXPECT_TRUE(gradient.is_leaf());
}

TEST(SecondDerivative, ThroughAFreedGraphThrows) {
  const Variable x = leaf({2.0});
  const Variable trunk = exp(x);
  const Variable y = trunk * trunk;
  y.backward();
  EXPECT_NE(message_of<Error>([&] { static_cast<void>(grad(y, x, keep)); }).find("freed"),
            std::string::npos);
  const Variable z = exp(x) * x;
  const Variable first = grad(z, x, keep);
  first.backward();  // also frees the graph of z
  EXPECT_THROW(static_cast<void>(grad(z, x, keep)), Error);
}

TEST(SecondDerivative, OfSeveralRootsIsThatOfTheirSum) {
  const Variable x = leaf({3}, 1);
  const Variable a = sum(sin(x)), b = sum(exp(x) * x);
  const auto both = grad(std::vector{a, b}, std::vector{x}, keep).front();
  const auto one = grad(a + b, x, keep);
  EXPECT_EQ(of(both), of(one));
  EXPECT_EQ(of(slope(both, x)), of(slope(one, x)));
}

TEST(SecondDerivative, OfAResultInTheMiddleStopsThere) {
  const Variable x = leaf({3}, 1);
  const Variable h = exp(x);
  const Variable y = sum(h * h * h);
  const auto both = grad(y, std::vector{h, x}, keep);
  expect_each(both[0], h, [](double at) { return 3 * at * at; });
  expect_each(slope(both[0], h), h, [](double at) { return 6 * at; });
  expect_each(slope(both[1], x), x, [](double at) { return 9 * std::exp(3 * at); });
}

TEST(SecondDerivative, OfAnUnusedVariableIsUndefinedOrAnError) {
  const Variable x = leaf({1.0}), other = leaf({2.0});
  const auto message = message_of<Error>([&] {
    static_cast<void>(grad(x * x, std::vector{x, other}, keep));
  });
  EXPECT_NE(message.find("do not depend on input 1"), std::string::npos) << message;
  const auto gradients =
      grad(x * x, std::vector{x, other}, {.create_graph = true, .allow_unused = true});
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[1].defined());
}

/// y = x, differentiable once, and its derivative twice wrong by a factor.
class TwiceNode : public PooledNode<TwiceNode> {
 public:
  TwiceNode(bool has_second, double factor) : has_second_(has_second), factor_(factor) {}
  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.accumulate) x.tensor.zero();
    add_scaled(grad_output, 1.0, x.tensor);
  }
  void differentiate(Differentiation& d) override {
    if (!has_second_) return Node::differentiate(d);
    // The right value, of a wrong slope.
    const Variable& x = input(0);
    d.give(0, d.grad_output() * (1.0 + (factor_ - 1.0) * (x - Variable(x.data()))));
  }
  [[nodiscard]] const char* name() const noexcept override { return "own_operation"; }

 private:
  bool has_second_;
  double factor_;
};
Variable own_operation(const Variable& x, bool has_second, double factor = 1.0) {
  return record<TwiceNode>(x.data().clone(), {&x}, has_second, factor);
}

TEST(SecondDerivative, OfAnOperationWithoutOneNamesItAndItsResult) {
  const Variable x = leaf({2, 3}, 1);
  const Variable y = sum(exp(own_operation(x, false)));
  const auto message = message_of<Error>([&] { static_cast<void>(grad(y, x, keep)); });
  for (const char* part :
       {"own_operation", "no second derivative", "f64[2, 3]", "docs/guide/second_derivatives.md"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(grad(y, x).shape(), x.shape()) << "first derivatives it has, after the error too";
}

TEST(SecondDerivative, PassesByAnOperationWithoutOneThatLeadsElsewhere) {
  const Variable x = leaf({2}, 1), z = leaf({2}, 2);
  const Variable y = sum(x * x * own_operation(z, false));
  expect_each(slope(slope(y, x), x), z, [](double at) { return 2 * at; });
}

TEST(SecondDerivative, CheckSecondGradientsTellsRightFromWrong) {
  const auto check = [](double factor) {
    const Variable x = leaf({5}, 1), w = leaf({5}, 2);
    return check_second_gradients([&] { return sum(exp(own_operation(x * w, true, factor)) * w); },
                                  {{"x", x}, {"w", w}});
  };
  for (const auto& result : check(1.0)) EXPECT_TRUE(result.ok()) << result.name << result.where;
  for (const auto& result : check(1.01)) EXPECT_FALSE(result.ok()) << result.name;
}

TEST(SecondDerivative, CheckSecondGradientsTakesALossThatIsLinearInAVariable) {
  const Variable x = leaf({5}, 1), w = leaf({5}, 2);
  for (const auto& result :
       check_second_gradients([&] { return sum(x * 2.0) + sum(exp(w)); }, {{"x", x}, {"w", w}})) {
    EXPECT_TRUE(result.ok()) << result.name << result.where;
  }
}

// Such as a rank has that has no samples left.
TEST(SecondDerivative, OfANormOfNoSamplesIsEmpty) {
  const Variable weight = leaf({4}, 1), bias = leaf({4}, 2);
  const Variable x(Tensor::empty({0, 4, 3, 3}, DType::f64), true);
  const Variable by_groups = grad(sum(group_norm(x, 2, weight, bias)), x, keep);
  EXPECT_EQ(by_groups.shape(), x.shape());
  const BatchNormStatistics statistics{Tensor::zeros({4}, DType::f64),
                                       Tensor::full({4}, 1.0, DType::f64), nullptr};
  const Variable by_batches =
      grad(sum(batch_norm(x, weight, bias, statistics, /*training=*/false)), x, keep);
  EXPECT_EQ(by_batches.shape(), x.shape());
}

// A discriminator's gradient penalty (Gulrajani et al. 2017, arXiv:1704.00028).
TEST(SecondDerivative, TrainsAGradientPenalty) {
  const Variable x = leaf({6, 3}, 1), w = leaf({8, 3}, 2), b = leaf({8}, 3), v = leaf({1, 8}, 4);
  const auto loss = [&] {
    const EnableGradGuard records;
    const Variable score = linear(softplus(linear(x, w, b)), v, {});
    const Variable slopes = grad(sum(score), x, keep);
    return mean(score) + 10.0 * mean(pow(sqrt(sum(pow(slopes, 2.0), {1})) - 1.0, 2.0));
  };
  for (const auto& result : check_gradients(loss, {{"w", w}, {"b", b}, {"v", v}})) {
    EXPECT_TRUE(result.ok()) << result.name << ' ' << result.where << ' ' << result.gradient << ' '
                             << result.difference;
  }
}

// Model-agnostic meta-learning (Finn et al. 2017, arXiv:1703.03400): through the steps of the
// inner training.
TEST(SecondDerivative, LeadsThroughStepsOfGradientDescent) {
  const Variable w = leaf({4, 5}, 1), b = leaf({4}, 2);
  const Variable x(random_tensor({6, 5}, 3));
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 3, 0, 1}, {6});
  const auto loss = [&] {
    const EnableGradGuard records;
    Variable inner_w = w, inner_b = b;
    for (int step = 0; step < 3; ++step) {
      const Variable inner = cross_entropy(linear(x, inner_w, inner_b), target);
      const auto gradients = grad(inner, std::vector{inner_w, inner_b}, keep);
      inner_w = inner_w - 0.5 * gradients[0];
      inner_b = inner_b - 0.5 * gradients[1];
    }
    return cross_entropy(linear(x * x, inner_w, inner_b), target);
  };
  for (const auto& result : check_gradients(loss, {{"w", w}, {"b", b}})) {
    EXPECT_TRUE(result.ok()) << result.name << ' ' << result.where;
  }
  for (const auto& result : check_second_gradients(loss, {{"w", w}, {"b", b}})) {
    EXPECT_TRUE(result.ok()) << result.name << ' ' << result.where;
  }
}

TEST(SecondDerivative, OfRowsThatArePaddingIsNone) {
  const auto index = Tensor::from(std::vector<std::int64_t>{0, 2, 2, 1}, {4});
  const Variable table = leaf({3, 2}, 1);
  const Variable u = leaf({4, 2}, 2);
  const auto pulled = grad(exp(embedding(index, table, 2)), std::span(&table, 1),
                           {.grad_outputs = std::span(&u, 1), .create_graph = true})
                          .front();
  const auto of_u = of(grad(sum(pulled), u, {.retain_graph = true}));
  const auto rows = table.data().to_vector<double>();
  EXPECT_EQ(of_u, (Values{std::exp(rows[0]), std::exp(rows[1]), 0, 0, 0, 0, std::exp(rows[2]),
                          std::exp(rows[3])}));
}

TEST(SecondDerivative, OfImagesInChannelBlocksIsThatOfPlainOnes) {
  const Tensor image = random_tensor({2, 16, 6, 5}, 1).to(DType::f32);
  const Tensor kernel = random_tensor({16, 16, 3, 3}, 2).to(DType::f32);
  const auto gradients = [&](bool blocks) {
    const Variable x(image.clone(), true), w(kernel.clone(), true);
    const Layout layout = blocks ? Layout::channel_blocks : Layout::plain;
    Variable y = conv2d(blocks ? to_channel_blocks(x) : x, w, {}, {.padding = {1, 1}}, layout);
    EXPECT_EQ(y.data().layout(), layout);
    y = from_channel_blocks(relu(y));
    const Variable penalty = sum(pow(grad(sum(y * y), x, keep), 2.0));
    penalty.backward();
    return std::pair(x.grad(), w.grad());
  };
  const auto [x, w] = gradients(false);
  const auto [blocked_x, blocked_w] = gradients(true);
  const auto expect_near = [](const Tensor& a, const Tensor& b) {
    const auto left = a.to_vector<float>(), right = b.to_vector<float>();
    float largest = 0;
    for (const float value : left) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < left.size(); ++i) {
      ASSERT_NEAR(left[i], right[i], 1e-5F * largest) << i;
    }
  };
  expect_near(x, blocked_x);
  expect_near(w, blocked_w);
}

TEST(SecondDerivative, OfGraphsThatShareLeavesRunsOnSeveralThreads) {
  const Variable w = leaf({4, 4}, 1);
  std::vector<Values> found(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      const Variable x = leaf({3, 4}, 9);
      const Variable y = sum(tanh(matmul(x, w)));
      found[i] = of(grad(sum(pow(grad(y, x, keep), 2.0)), w));
    });
  }
  for (auto& thread : threads) thread.join();
  for (const Values& values : found) EXPECT_EQ(values, found[0]);
}

}  // namespace
}  // namespace lockstep::test
