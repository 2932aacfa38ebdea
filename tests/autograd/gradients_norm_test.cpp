// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/norm.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

struct NormCase {
  const char* name;
  Shape x, weight;
};

class NormGradient : public testing::TestWithParam<NormCase> {};

TEST_P(NormGradient, OfLayerNormAgreesWithCentralDifferences) {
  const Tensor x = random_tensor(GetParam().x, 1), weight = random_tensor(GetParam().weight, 2);
  expect_gradients([](const std::vector<Variable>& v) { return layer_norm(v[0], v[1], v[2]); },
                   {x, weight, random_tensor(weight.shape(), 3)});
  expect_gradients([](const std::vector<Variable>& v) { return layer_norm(v[0], v[1], {}, 0.1); },
                   {x, weight});
}

TEST_P(NormGradient, OfRmsNormAgreesWithCentralDifferences) {
  const Tensor x = random_tensor(GetParam().x, 1), weight = random_tensor(GetParam().weight, 2);
  expect_gradients([](const std::vector<Variable>& v) { return rms_norm(v[0], v[1]); },
                   {x, weight});
}

// 70 rows are more than one block of the parameters' sums.
INSTANTIATE_TEST_SUITE_P(Shapes, NormGradient,
                         testing::Values(NormCase{"rows", {5, 19}, {19}},
                                         NormCase{"one_row", {33}, {33}},
                                         NormCase{"two_dimensions", {2, 3, 4, 5}, {4, 5}},
                                         NormCase{"blocks", {70, 3}, {3}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::test
