// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

TEST(ReshapeGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Variable flat = flatten(relu(v[0]), 1);
        return linear(flat, reshape(v[1], {3, 12}), {});
      },
      {random_tensor({2, 3, 4}, 15), random_tensor({36}, 16)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return linear(reshape(v[0], {2, 6}), reshape(v[0], {2, 6}), {});
      },
      {random_tensor({3, 4}, 17)});
}

TEST(PermuteGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  for (const Dims& dims : {Dims{0, 1, 2}, Dims{2, 1, 0}, Dims{1, 0, 2}, Dims{-2, -1, 0}}) {
    expect_gradients([&](const std::vector<Variable>& v) { return permute(v[0], dims); },
                     {random_tensor({3, 2, 4}, 18)});
  }
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return linear(transpose(v[0], 0, 1), transpose(v[0], -1, 0), {});
      },
      {random_tensor({3, 4}, 19)});
}

TEST(NarrowGradient, AgreesWithCentralDifferencesWherePartsOverlap) {
  for (const int dim : {0, 1, -1}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return narrow(v[0], dim, 1, 2) * narrow(v[0], dim, 0, 2);
        },
        {random_tensor({3, 4, 3}, 20)});
  }
}

TEST(SplitGradient, AgreesWithCentralDifferencesAlsoIfAPartGoesUnused) {
  const std::vector<std::int64_t> sizes{1, 0, 2, 2};
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        const auto parts = split(v[0], sizes, 1);
        return parts[2] * parts[0];
      },
      {random_tensor({3, 5, 2}, 21)});
}

TEST(ConcatGradient, AgreesWithCentralDifferencesForAnyNumberOfParts) {
  for (const std::size_t count : {1, 2, 4, 5, 9, 17}) {
    SCOPED_TRACE(count);
    std::vector<Tensor> parts;
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(random_tensor({2, static_cast<std::int64_t>(i % 3), 2}, 22 + i));
    }
    expect_gradients([](const std::vector<Variable>& v) { return concat(v, 1); }, parts);
  }
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return concat(std::vector<Variable>{v[0], v[1], v[0]});
      },
      {random_tensor({2, 3}, 40), random_tensor({1, 3}, 41)});
}

// Indices that repeat, in index tensors smaller than x in the other dimensions.
TEST(GatherGradient, AgreesWithCentralDifferencesWhereElementsAreChosenTwice) {
  const std::vector<std::pair<int, Shape>> cases{
      {0, {4, 2, 5}}, {1, {3, 4, 5}}, {2, {3, 2, 7}}, {-1, {2, 1, 3}}, {0, {1, 1, 2}}};
  for (const auto& [dim, shape] : cases) {
    SCOPED_TRACE(std::to_string(dim) + " " + to_string(shape));
    const Shape of_x{3, 2, 5};
    std::vector<std::int64_t> chosen;
    for (std::int64_t i = 0; i < shape.numel(); ++i) chosen.push_back(i * i % of_x[dim]);
    const Tensor index = Tensor::from(chosen, shape);
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return gather(v[0], dim, index) * gather(v[0] * v[0], dim, index);
        },
        {random_tensor(of_x, 42)});
  }
}

}  // namespace
}  // namespace lockstep::test
