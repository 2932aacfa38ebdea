#include "gradient_check.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/base/philox.hpp>

#include "weighted_sum.hpp"

namespace lockstep::test {

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  PhiloxSequence random(seed, 0);
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (double& value : values) value = 2.0 * random.uniform() - 1.0;
  return Tensor::from(values, shape);
}

namespace {

double loss_of(const Function& f, const std::vector<Tensor>& inputs, const Tensor& upstream) {
  const NoGradGuard guard;
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) variables.emplace_back(input);
  return weighted_sum(f(variables), upstream).data().item();
}

}  // namespace

void expect_gradients(const Function& f, const std::vector<Tensor>& inputs) {
  std::vector<Variable> variables;
  for (const Tensor& input : inputs) variables.emplace_back(input.clone(), true);
  const Variable out = f(variables);
  const Tensor upstream = random_tensor(out.shape(), 77);
  weighted_sum(out, upstream).backward();

  constexpr double h = 1e-5;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    ASSERT_TRUE(variables[k].grad().defined()) << "input " << k << " got no gradient";
    const auto gradient = variables[k].grad().to_vector<double>();
    const auto values = inputs[k].to_vector<double>();
    std::vector<Tensor> moved = inputs;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto loss_at = [&](double x) {
        auto shifted = values;
        shifted[i] = x;
        moved[k] = Tensor::from(shifted, inputs[k].shape());
        return loss_of(f, moved, upstream);
      };
      const double difference = (loss_at(values[i] + h) - loss_at(values[i] - h)) / (2 * h);
      ASSERT_LE(std::abs(gradient[i] - difference), 1e-7 * (1 + std::abs(difference)))
          << "input " << k << ", element " << i << ": backward " << gradient[i]
          << ", central difference " << difference;
    }
  }
}

}  // namespace lockstep::test
