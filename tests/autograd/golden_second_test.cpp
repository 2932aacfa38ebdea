// Every case of second.h5: losses that contain gradients, in f32 and f64, against PyTorch.
#include <gtest/gtest.h>

#include <support/golden_cases.hpp>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>

#include "golden_ops/case.hpp"

namespace lockstep::test {
namespace {

constexpr GradOptions keep{.create_graph = true};

void expect_loss(Case& c, const Variable& loss) {
  c.expect(loss.data(), "out_f64");
  loss.backward();
  c.expect_gradients();
}

void check_residual(Case& c) {
  const Variable x = c.input("x"), t = c.input("t");
  const Variable hidden = tanh(linear(concat(std::vector{x, t}, 1), c.input("w1"), c.input("b1")));
  const Variable u = linear(tanh(linear(hidden, c.input("w2"), c.input("b2"))), c.input("w3"), {});
  const auto slopes = grad(sum(u), std::vector{x, t}, keep);
  const Variable u_xx = grad(sum(slopes[0]), x, keep);
  c.expect(slopes[1].data(), "u_t_f64");
  c.expect(u_xx.data(), "u_xx_f64");
  expect_loss(c, mean(pow(slopes[1] - u_xx, 2.0)));
}

void check_penalty(Case& c) {
  const Variable x = c.input("x");
  const Variable h =
      silu(conv2d(x, c.input("w1"), c.input("b1"), {.stride = {2, 2}, .padding = {1, 1}}));
  const Variable normal = layer_norm(flatten(h, 1), c.input("gain"), c.input("shift"));
  const Variable score = linear(leaky_relu(normal, 0.2), c.input("w2"), {});
  const Variable slope = grad(sum(score), x, keep);
  c.expect(slope.data(), "slope_f64");
  const Variable length = sqrt(sum(pow(flatten(slope, 1), 2.0), {1}));
  expect_loss(c, mean(score) + 10.0 * mean(pow(length - 1.0, 2.0)));
}

void check_inner_steps(Case& c) {
  const Variable x = c.input("x");
  const Tensor target = c.tensor("target");
  Variable w = c.input("w"), b = c.input("b");
  for (int step = 0; step < 2; ++step) {
    const Variable inner =
        cross_entropy(linear(gelu(x), w, b), target, {.class_weight = {}, .label_smoothing = 0.1});
    const auto gradients = grad(inner, std::vector{w, b}, keep);
    w = w - 0.5 * gradients[0];
    b = b - 0.5 * gradients[1];
  }
  c.expect(w.data(), "w_inner_f64");
  expect_loss(c, cross_entropy(linear(x, w, b), target));
}

void check_attention(Case& c) {
  const Variable q = c.input("q"), k = c.input("k"), v = c.input("v");
  const Variable y =
      rms_norm(scaled_dot_product_attention(q, k, v, {.causal = true}), c.input("gain"));
  const Variable loss = sum(exp(0.3 * y) * softmax(y));
  const auto g = grad(loss, std::vector{q, k, v}, keep);
  expect_loss(
      c, sum(g[0] * c.input("dq")) + sum(pow(g[1], 2.0)) + sum(g[2] * cos(Variable(g[2].data()))));
}

void check_third(Case& c) {
  const Variable x = c.input("x");
  Variable y =
      tanh(x) * sigmoid(x) + softplus(x) * sin(x) / (2.0 + cos(x)) + sqrt(1.0 + pow(x, 2.0));
  for (int order = 0; order < 3; ++order) y = grad(sum(y), x, keep);
  c.expect(y.data(), "third_f64");
  expect_loss(c, sum(pow(y, 2.0)));
}

TEST(GoldenSecond, EveryCaseAgreesAndNothingOfTheFileIsLeftUnread) {
  check_golden_cases<Case>(GoldenFile("second.h5"), Checks{{"residual", check_residual},
                                                           {"penalty", check_penalty},
                                                           {"inner_steps", check_inner_steps},
                                                           {"attention", check_attention},
                                                           {"third", check_third}});
}

}  // namespace
}  // namespace lockstep::test
