// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

TEST(ReshapeGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Variable flat = flatten(relu(v[0]));
        return linear(flat, reshape(v[1], {3, 12}), {});
      },
      {random_tensor({2, 3, 4}, 15), random_tensor({36}, 16)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return linear(reshape(v[0], {2, 6}), reshape(v[0], {2, 6}), {});
      },
      {random_tensor({3, 4}, 17)});
}

}  // namespace
}  // namespace lockstep::test
