// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/embedding_bag.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

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

TEST(EmbeddingBagGradient, AgreesWithCentralDifferencesInEveryMode) {
  const auto index = Tensor::from(std::vector<std::int64_t>{4, 0, 4, 2, 2, 4, 1}, {7});
  const auto offsets = Tensor::from(std::vector<std::int64_t>{0, 3, 3, 5, 7}, {5});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    for (const std::int64_t padding : {-1, 2}) {
      // Row 2 gets no gradient from padding, and differences none either.
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return embedding_bag(index, v[0], offsets, mode, {}, padding);
          },
          {random_tensor({5, 19}, 1)}, Derivatives::first);
    }
  }
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return embedding_bag(index, v[0], offsets, BagMode::sum, v[1]);
      },
      {random_tensor({5, 3}, 1), random_tensor({7}, 2)}, Derivatives::first);
}

}  // namespace
}  // namespace lockstep::test
