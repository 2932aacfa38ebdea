// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/reduction.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

TEST(LinearGradient, AgreesWithCentralDifferences) {
  const Tensor weight = random_tensor({5, 4}, 6), bias = random_tensor({5}, 7);
  for (const Shape& shape : {Shape{3, 4}, Shape{4}, Shape{2, 3, 4}}) {
    SCOPED_TRACE(to_string(shape));
    expect_gradients([](const std::vector<Variable>& v) { return linear(v[0], v[1], v[2]); },
                     {random_tensor(shape, 5), weight, bias});
    expect_gradients([](const std::vector<Variable>& v) { return linear(v[0], v[1], {}); },
                     {random_tensor(shape, 5), weight});
  }
}

TEST(LinearWithoutValues, IsZeroAndHasTheGradientsOfLinearToTheBit) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const auto gradients = [&](const auto& product) {
      std::vector<Variable> inputs;
      for (const Shape& shape : {Shape{2, 3, 4}, Shape{5, 4}, Shape{5}})
        inputs.emplace_back(random_tensor(shape, 8).to(dtype), true);
      const Variable y = product(inputs[0], inputs[1], inputs[2]);
      EXPECT_EQ(y.shape(), (Shape{2, 3, 5}));
      sum(y * Variable(random_tensor({2, 3, 5}, 9).to(dtype))).backward();
      std::vector<std::vector<double>> all{y.data().to(DType::f64).to_vector<double>()};
      for (const Variable& input : inputs)
        all.push_back(input.grad().to(DType::f64).to_vector<double>());
      return all;
    };
    auto with = gradients([](const auto&... v) { return linear(v...); });
    const auto without = gradients([](const auto&... v) { return linear_without_values(v...); });
    EXPECT_EQ(without[0], std::vector<double>(30, 0.0));
    EXPECT_NE(with[0], without[0]);
    with[0] = without[0];
    EXPECT_EQ(with, without) << name_of(dtype);
  }
}

}  // namespace
}  // namespace lockstep::test
