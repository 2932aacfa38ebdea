#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

#include <support/message_of.hpp>
#include "weighted_sum.hpp"

namespace lockstep::test {

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  PhiloxSequence random(seed, 0);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = 2.0 * random.uniform() - 1.0;
  return Tensor::from(values, shape);
}

namespace {

std::vector<Variable> leaves(const std::vector<Tensor>& inputs) {
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) variables.emplace_back(input.clone(), true);
  return variables;
}

/// Compares d/dx of a number that depends on the inputs with central differences.
void expect_derivatives(const char* what, const std::vector<Tensor>& inputs,
                        const std::vector<Variable>& variables,
                        const std::function<double(const std::vector<Tensor>&)>& number) {
  constexpr double h = 1e-5;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    ASSERT_TRUE(variables[k].grad().defined()) << what << ": input " << k << " got no gradient";
    const auto gradient = variables[k].grad().to_vector<double>();
    const auto values = inputs[k].to_vector<double>();
    std::vector<Tensor> moved = inputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto number_at = [&](double x) {
        auto shifted = values;
        shifted[i] = x;
        moved[k] = Tensor::from(shifted, inputs[k].shape());
        return number(moved);
      };
      const double difference = (number_at(values[i] + h) - number_at(values[i] - h)) / (2 * h);
      ASSERT_LE(std::abs(gradient[i] - difference), 1e-7 * (1 + std::abs(difference)))
          << what << ": input " << k << ", element " << i << ": backward " << gradient[i]
          << ", central difference " << difference;
    }
  }
}

double loss_of(const Function& f, const std::vector<Tensor>& inputs, const Tensor& upstream) {
  const NoGradGuard guard;
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) variables.emplace_back(input);
  return weighted_sum(f(variables), upstream).data().item();
}

/// sum(f * upstream), by operations that have second derivatives.
Variable differentiable_loss(const Function& f, const std::vector<Variable>& variables,
                             const Tensor& upstream) {
  return sum(f(variables) * Variable(upstream));
}

/// A weight for each element of each input's gradient.
Tensor weights_of(const Tensor& input, std::size_t k) {
  return random_tensor(input.shape(), 177 + k);
}

/// The sum of the weighted gradients that backward() gives.
double weighted_gradients(const Function& f, const std::vector<Tensor>& inputs,
                          const Tensor& upstream) {
  const auto variables = leaves(inputs);
  differentiable_loss(f, variables, upstream).backward();
  double total = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    total += weighted_sum(Variable(variables[k].grad()), weights_of(inputs[k], k)).data().item();
  }
  return total;
}

void expect_second_gradients(const Function& f, const std::vector<Tensor>& inputs,
                             const Tensor& upstream) {
  const auto variables = leaves(inputs);
  const auto gradients =
      grad(differentiable_loss(f, variables, upstream), variables, {.create_graph = true});
  // 0 sum(x): a linear function's gradient depends on nothing.
  Variable total(Tensor::zeros({}, DType::f64));
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    total =
        total + sum(gradients[k] * Variable(weights_of(inputs[k], k))) + 0.0 * sum(variables[k]);
  }
  ASSERT_NEAR(total.data().item(), weighted_gradients(f, inputs, upstream),
              1e-12 * (10 + std::abs(total.data().item())))
      << "the first derivatives differ from backward()'s";
  total.backward();
  expect_derivatives("second derivative", inputs, variables, [&](const std::vector<Tensor>& moved) {
    return weighted_gradients(f, moved, upstream);
  });
}

}  // namespace

void expect_gradients(const Function& f, const std::vector<Tensor>& inputs,
                      Derivatives derivatives) {
  const auto variables = leaves(inputs);
  const Variable out = f(variables);
  const Tensor upstream = random_tensor(out.shape(), 77);
  weighted_sum(out, upstream).backward();
  expect_derivatives("first derivative", inputs, variables,
                     [&](const std::vector<Tensor>& moved) { return loss_of(f, moved, upstream); });
  if (testing::Test::HasFatalFailure()) return;
  if (derivatives == Derivatives::of_any_order) return expect_second_gradients(f, inputs, upstream);
  const auto message = message_of<Error>([&] {
    const auto again = leaves(inputs);
    static_cast<void>(grad(differentiable_loss(f, again, upstream), again, {.create_graph = true}));
  });
  EXPECT_NE(message.find("has no second derivative"), std::string::npos) << message;
}

}  // namespace lockstep::test
