// Backward against central differences in double.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/ctc_loss.hpp>
#include <lockstep/autograd/functional/distance.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduction.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

const std::vector<Tensor> three_rows{random_tensor({4, 7}, 1), random_tensor({4, 7}, 2),
                                     random_tensor({4, 7}, 3)};

TEST(DistanceGradient, AgreesWithCentralDifferences) {
  for (const double p : {1.0, 2.0, 3.0, 2.5}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return pairwise_distance(v[0], v[1], p); },
        {three_rows[0], three_rows[1]});
  }
  for (const int dim : {0, 1}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return cosine_similarity(v[0], v[1], dim); },
        {three_rows[0], three_rows[1]});
  }
  for (const Shape& shape : {Shape{4, 1}, Shape{1, 7}, Shape{7}}) {
    expect_gradients(
        [&](const std::vector<Variable>& v) { return cosine_similarity(v[0], v[1], 1); },
        {random_tensor(shape, 4), three_rows[1]});
  }
}

TEST(CosineSimilarity, IsThatOfTheRowsThatAreBroadcast) {
  const Variable a(Tensor::full({2, 1}, 1.0, DType::f64));
  const Variable b(Tensor::from(std::vector<double>{1, 1, 3, 4}, {2, 2}));
  const auto cosine = cosine_similarity(a, b).data().to_vector<double>();
  EXPECT_NEAR(cosine.at(0), 1.0, 1e-15);
  EXPECT_NEAR(cosine.at(1), 7.0 / (5.0 * std::sqrt(2.0)), 1e-15);
}

TEST(DistanceGradient, OfAnInfinitePowerIsThatOfTheLargestDifference) {
  const Variable a(Tensor::from(std::vector<double>{1, 5, -2}, {1, 3}), true);
  const Variable b(Tensor::from(std::vector<double>{0, 1, 4}, {1, 3}));
  const Variable distance = pairwise_distance(a, b, INFINITY, 0.0);
  EXPECT_EQ(distance.data().to_vector<double>(), std::vector<double>{6});
  sum(distance).backward();
  EXPECT_EQ(a.grad().to_vector<double>(), (std::vector<double>{0, 0, -1}));
}

// Rows of zeros, such as padding: one would make all weights NaN.
TEST(CosineSimilarityGradient, OfARowOfZerosIsFinite) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Variable a(Tensor::zeros({1, 3}, dtype), true);
    const Variable b(Tensor::full({1, 3}, 2.0, dtype), true);
    const Variable similarity = cosine_similarity(a, b, 1);
    EXPECT_EQ(similarity.data().item(), 0.0);
    sum(similarity).backward();
    for (const Variable& v : {a, b}) {
      for (const double g : v.grad().to(DType::f64).to_vector<double>())
        EXPECT_TRUE(std::isfinite(g));
    }
  }
}

TEST(TripletMarginGradient, AgreesWithCentralDifferences) {
  for (const bool swap : {false, true}) {
    for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return triplet_margin_loss(v[0], v[1], v[2], {.swap = swap, .reduction = reduction});
          },
          three_rows);
    }
  }
}

TEST(CosineEmbeddingGradient, AgreesWithCentralDifferences) {
  const Tensor target = Tensor::from(std::vector<std::int64_t>{1, -1, 1, -1}, {4});
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return cosine_embedding_loss(v[0], v[1], target, -0.9, Reduction::none);
      },
      {three_rows[0], three_rows[1]});
}

TEST(CtcGradient, AgreesWithCentralDifferencesForPaddedAndForJoinedTargets) {
  const Tensor padded = Tensor::from(std::vector<std::int64_t>{1, 1, 2, 3, 0, 0, 0, 0, 0}, {3, 3});
  const Tensor joined = Tensor::from(std::vector<std::int64_t>{1, 1, 2, 3}, {4});
  const Tensor lengths = Tensor::from(std::vector<std::int64_t>{3, 1, 0}, {3});
  const Tensor frames = Tensor::from(std::vector<std::int64_t>{6, 4, 3}, {3});
  for (const Tensor& targets : {padded, joined}) {
    for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return ctc_loss(log_softmax(v[0], 2), targets, frames, lengths, 0, reduction);
          },
          {random_tensor({6, 3, 4}, 5)}, Derivatives::first);
    }
  }
}

}  // namespace
}  // namespace lockstep::test
