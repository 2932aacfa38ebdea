// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/activation.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

TEST(ReluGradient, AgreesWithCentralDifferences) {
  expect_gradients([](const std::vector<Variable>& v) { return relu(v[0]); },
                   {random_tensor({3, 21}, 8)});
}

TEST(ActivationGradient, AgreesWithCentralDifferences) {
  // Spread over [-4, 4], where no activation is straight.
  const Tensor x = random_tensor({3, 21}, 8);
  std::vector<double> values = x.to_vector<double>();
  for (double& value : values) value *= 4.0;
  const std::vector<Tensor> inputs{Tensor::from(values, x.shape())};
  for (const auto f : {silu, sigmoid, lockstep::tanh}) {
    expect_gradients([&](const std::vector<Variable>& v) { return f(v[0]); }, inputs);
  }
  for (const Gelu approximation : {Gelu::exact, Gelu::tanh}) {
    expect_gradients([&](const std::vector<Variable>& v) { return gelu(v[0], approximation); },
                     inputs);
  }
}

TEST(DropoutGradient, AgreesWithCentralDifferences) {
  const RandomKey key{5, 1, 2, 3};
  expect_gradients([&](const std::vector<Variable>& v) { return dropout(v[0], 0.4, key); },
                   {random_tensor({3, 13}, 9)});
  expect_gradients([&](const std::vector<Variable>& v) { return dropout2d(v[0], 0.4, key); },
                   {random_tensor({3, 5, 2, 3}, 9)});
}

TEST(SoftmaxGradient, AgreesWithCentralDifferencesAlongEveryDimension) {
  for (const int dim : {0, 1, 2, -1, -2}) {
    SCOPED_TRACE(dim);
    expect_gradients([&](const std::vector<Variable>& v) { return softmax(v[0], dim); },
                     {random_tensor({2, 19, 3}, 10)});
  }
}

TEST(LogSoftmaxGradient, AgreesWithCentralDifferencesAlongEveryDimension) {
  for (const int dim : {0, 1, 2, -1, -2}) {
    SCOPED_TRACE(dim);
    expect_gradients([&](const std::vector<Variable>& v) { return log_softmax(v[0], dim); },
                     {random_tensor({2, 19, 3}, 10)});
  }
}

}  // namespace
}  // namespace lockstep::test
