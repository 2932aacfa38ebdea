// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/linear.hpp>

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

}  // namespace
}  // namespace lockstep::test
