// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/linear.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

TEST(EmbeddingGradient, AgreesWithCentralDifferencesAlsoForRepeatedRows) {
  const auto index = Tensor::from(std::vector<std::int64_t>{4, 0, 4, 2, 2, 4}, {2, 3});
  for (const std::int64_t width : {1, 5, 16, 19}) {
    expect_gradients([&](const std::vector<Variable>& v) { return embedding(index, v[0]); },
                     {random_tensor({5, width}, 1)});
  }
}

}  // namespace
}  // namespace lockstep::test
