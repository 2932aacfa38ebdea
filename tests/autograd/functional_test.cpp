// What operations promise beyond their formulas: messages, edges, and independence of the ranks.
#include <lockstep/autograd/functional.hpp>

#include <cmath>
#include <limits>

#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

Variable input(const Shape& shape, DType dtype = DType::f32) {
  return Variable(random_tensor(shape, 31).to(dtype), true);
}

/// Expects a ShapeError whose message holds every one of `parts`.
template <class F>
void expect_shape_error(const F& f, const std::vector<std::string>& parts) {
  try {
    static_cast<void>(f());
    FAIL() << "no ShapeError";
  } catch (const ShapeError& error) {
    for (const auto& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

TEST(ShapeErrors, PrintBothShapes) {
  const Variable image = input({2, 3, 8, 8});
  expect_shape_error(
      [&] {
        return conv2d(image, input({4, 2, 3, 3}), {});
      },
      {"[2, 3, 8, 8]", "[4, 2, 3, 3]"});
  expect_shape_error(
      [&] {
        return conv2d(image, input({4, 3, 9, 9}), {});
      },
      {"[2, 3, 8, 8]", "[4, 3, 9, 9]", "larger than the padded input"});
  expect_shape_error(
      [&] {
        return conv2d(image, input({4, 3, 3, 3}), input({5}));
      },
      {"[4, 3, 3, 3]", "[5]"});
  expect_shape_error(
      [&] {
        return conv2d(image, input({4, 3, 3, 3}, DType::f64), {});
      },
      {"f32[2, 3, 8, 8]", "f64[4, 3, 3, 3]"});
  expect_shape_error(
      [&] {
        return conv2d(image, input({4, 1, 3, 3}), {}, {{1, 1}, {0, 0}, {1, 1}, 3});
      },
      {"[4, 1, 3, 3]", "groups 3"});
  expect_shape_error([&] { return max_pool2d(image, {.kernel = 9, .stride = 1}); },
                     {"[2, 3, 8, 8]", "kernel 9"});
  expect_shape_error([&] { return max_pool2d(image, {.kernel = 2, .padding = 2}); },
                     {"padding 2", "half"});
  expect_shape_error([&] { return max_pool2d(input({3, 8, 8}), 2); }, {"[3, 8, 8]"});
  expect_shape_error(
      [&] {
        return linear(input({2, 5}), input({3, 4}), {});
      },
      {"[2, 5]", "[3, 4]"});
  expect_shape_error(
      [&] {
        return linear(input({2, 4}), input({3, 4}), input({4}));
      },
      {"[3, 4]", "[4]"});
  expect_shape_error([&] { return log_softmax(input({2, 5}), 2); }, {"[2, 5]", "2"});
  expect_shape_error([&] { return reshape(input({2, 5}), {3, 4}); }, {"[2, 5]", "[3, 4]"});
  expect_shape_error([&] { return dropout2d(input({2, 5}), 0.5, {}); }, {"[2, 5]"});
  const Tensor target = Tensor::zeros({3}, DType::i64);
  expect_shape_error([&] { return nll_loss(input({2, 5}), target); }, {"[2, 5]", "[3]"});
  expect_shape_error([&] { return cross_entropy(input({3, 5, 2}), target); }, {"[3, 5, 2]", "[3]"});
  expect_shape_error(
      [&] {
        return nll_loss(input({3, 5}), Tensor::zeros({3}));
      },
      {"i64", "f32[3]"});
  LossOptions wrong_weight;
  wrong_weight.class_weight = Tensor::zeros({4});
  expect_shape_error(
      [&] {
        return nll_loss(input({3, 5}), target, wrong_weight);
      },
      {"[3, 5]", "[4]"});
  expect_shape_error([&] { return relu(Variable(Tensor::zeros({2}, DType::i64))); },
                     {"relu", "i64"});
}

TEST(Losses, NameATargetOutsideTheClasses) {
  const Tensor target = Tensor::from(std::vector<std::int64_t>{1, 7, 0}, {3});
  for (const auto& loss : {nll_loss, cross_entropy}) {
    try {
      static_cast<void>(loss(input({3, 5}), target, {}));
      FAIL() << "target 7 of 5 classes was taken";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("target 7 in row 1"), std::string::npos)
          << error.what();
    }
  }
}

TEST(Losses, MeanOverNothingIsNaNWithZeroGradient) {
  const Tensor ignored = Tensor::full({3}, -100, DType::i64);
  for (const auto& loss : {nll_loss, cross_entropy}) {
    const Variable x = input({3, 5});
    const Variable value = loss(x, ignored, {});
    EXPECT_TRUE(std::isnan(value.data().item()));
    value.backward();
    EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(15, 0.0F));
  }
}

// A rank without samples computes on empty batches: nothing fails, and parameters get gradient 0.
class EmptyBatch : public testing::TestWithParam<DType> {};

TEST_P(EmptyBatch, GivesEveryParameterAZeroGradient) {
  const DType dtype = GetParam();
  const Variable conv_weight = input({4, 2, 3, 3}, dtype), conv_bias = input({4}, dtype);
  const Variable weight = input({5, 16}, dtype), bias = input({5}, dtype);
  for (const Variable& x : {Variable(Tensor::empty({0, 2, 6, 6}, dtype)),
                            Variable(Tensor::empty({0, 2, 6, 6}, dtype), true)}) {
    for (const bool repeated : {false, true}) {
      if (!repeated) {
        for (const Variable& p : {conv_weight, conv_bias, weight, bias}) p.zero_grad();
      }
      Variable y = max_pool2d(relu(conv2d(x, conv_weight, conv_bias)), 2);
      y = dropout2d(y, 0.5, {1, 2, 3, 4});
      y = log_softmax(dropout(linear(flatten(y, 1), weight, bias), 0.5, {1, 3, 3, 4}), 1);
      LossOptions sum;
      sum.reduction = Reduction::sum;
      const Variable loss = nll_loss(y, Tensor::empty({0}, DType::i64), sum);
      EXPECT_EQ(loss.data().item(), 0.0);
      loss.backward();
      for (const Variable& p : {conv_weight, conv_bias, weight, bias}) {
        ASSERT_TRUE(p.grad().defined());
        EXPECT_EQ(p.grad().to(DType::f64).to_vector<double>(),
                  std::vector<double>(static_cast<std::size_t>(p.grad().numel()), 0.0));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Floating, EmptyBatch, testing::Values(DType::f32, DType::f64));

TEST(EmptyBatchLoss, CrossEntropySumIsZero) {
  const Variable x(Tensor::empty({0, 5}), true);
  LossOptions sum;
  sum.reduction = Reduction::sum;
  const Variable loss = cross_entropy(x, Tensor::empty({0}, DType::i64), sum);
  EXPECT_EQ(loss.data().item(), 0.0);
  loss.backward();
  EXPECT_EQ(x.grad().shape(), (Shape{0, 5}));
}

TEST(NaN, PassesThroughReluAndPooling) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Variable x(Tensor::from(std::vector{-1.0F, nan, 3.0F, 2.0F}, {1, 1, 2, 2}), true);
  EXPECT_TRUE(std::isnan(max_pool2d(x, 2).data().item()));
  EXPECT_TRUE(std::isnan(
      max_pool2d(x, {.kernel = 2, .stride = 1, .padding = 1}).data().to_vector<float>()[1]));
  EXPECT_TRUE(std::isnan(relu(x).data().to_vector<float>()[1]));
}

TEST(MaxPool2d, KeepsMinusInfinityAndPointsIntoThePlane) {
  const double infinite = std::numeric_limits<double>::infinity();
  const Tensor x = Tensor::full({1, 1, 4, 4}, -infinite), y = Tensor::empty({1, 1, 2, 2});
  const Tensor indices = Tensor::empty({1, 1, 2, 2}, DType::i32);
  max_pool2d_forward(x, {2, 2, 0}, y, indices);
  EXPECT_EQ(y.to_vector<float>(), std::vector<float>(4, -std::numeric_limits<float>::infinity()));
  EXPECT_EQ(indices.to_vector<std::int32_t>(), (std::vector<std::int32_t>{0, 2, 8, 10}));
}

/// Rows [begin, end) of the whole batch, dropped out the way the rank that owns them does it.
template <class Dropout>
std::vector<float> share(const Tensor& x, std::int64_t begin, std::int64_t end, RandomKey key,
                         const Dropout& drop) {
  key.first_sample += begin;
  return drop(Variable(x.slice(begin, end)), 0.4, key).data().template to_vector<float>();
}

template <class Dropout>
void expect_independent_of_the_split(const Tensor& x, const Dropout& drop) {
  const RandomKey key{1234, 5, 17, 640};
  const std::int64_t rows = x.size(0);
  const auto whole = share(x, 0, rows, key, drop);
  for (const std::vector<std::int64_t>& cuts :
       {std::vector<std::int64_t>{0, rows}, {0, 1, rows}, {0, 3, 3, rows / 2, rows}}) {
    std::vector<float> joined;
    for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
      const auto part = share(x, cuts[r], cuts[r + 1], key, drop);
      joined.insert(joined.end(), part.begin(), part.end());
    }
    EXPECT_EQ(joined, whole);
  }
}

TEST(Dropout, DoesNotDependOnTheSplitOfTheBatchOverRanks) {
  expect_independent_of_the_split(Tensor::full({9, 51}, 1), dropout);
  expect_independent_of_the_split(Tensor::full({9, 2, 3, 7}, 1), dropout);
  expect_independent_of_the_split(Tensor::full({9, 21, 2, 3}, 1), dropout2d);
}

TEST(Dropout, KeepsTheRightShareAndTheMean) {
  const Tensor scale = Tensor::empty({64, 4099});
  for (const double p : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    dropout_scale(p, {99, 0, 1, 0}, scale);
    const auto values = scale.to_vector<float>();
    double dropped = 0;
    for (const float value : values) {
      dropped += value == 0.0F;
      ASSERT_TRUE(value == 0.0F || value == static_cast<float>(1.0 / (1.0 - p)));
    }
    const auto n = static_cast<double>(values.size());
    // Five standard deviations of a binomial share; with p = 0 or 1 exactly none or all.
    EXPECT_LE(std::abs(dropped / n - p), 5 * std::sqrt(p * (1 - p) / n)) << "p = " << p;
  }
  EXPECT_THROW(dropout_scale(1.5, {}, scale), Error);
  EXPECT_THROW(dropout_scale(std::numeric_limits<double>::quiet_NaN(), {}, scale), Error);
}

TEST(Dropout, DiffersBySeedStreamStepAndSample) {
  const auto draw = [](const RandomKey& key) {
    const Tensor scale = Tensor::empty({1, 256});
    dropout_scale(0.5, key, scale);
    return scale.to_vector<float>();
  };
  const auto base = draw({1, 2, 3, 4});
  EXPECT_EQ(draw({1, 2, 3, 4}), base);
  EXPECT_NE(draw({2, 2, 3, 4}), base);
  EXPECT_NE(draw({1, 3, 3, 4}), base);
  EXPECT_NE(draw({1, 2, 4, 4}), base);
  EXPECT_NE(draw({1, 2, 3, 5}), base);
}

TEST(Dropout2d, DropsWholeChannels) {
  const auto y = dropout2d(Variable(Tensor::full({8, 16, 5, 5}, 1)), 0.5, {3, 0, 0, 0})
                     .data()
                     .to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], y[i / 25 * 25]);
}

TEST(Reshape, SharesMemoryForwardAndCopiesNothingBackward) {
  const Variable x = input({4, 6});
  const Variable y = reshape(x, {2, 12});
  EXPECT_EQ(y.data().storage(), x.data().storage());
  EXPECT_EQ(flatten(input({2, 3, 4})).shape(), (Shape{24}));
  EXPECT_EQ(flatten(input({2, 3, 4}), 1).shape(), (Shape{2, 12}));
  EXPECT_EQ(flatten(input({2, 3, 4}), -3, 1).shape(), (Shape{6, 4}));
  EXPECT_EQ(flatten(input({2, 3, 4, 5}), 1, -2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(flatten(input({3})).shape(), (Shape{3}));
  EXPECT_EQ(flatten(input({})).shape(), (Shape{1}));
  EXPECT_EQ(flatten(input({0, 3}), 0).shape(), (Shape{0}));
  EXPECT_THROW(static_cast<void>(flatten(input({3}), 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(flatten(input({2, 3}), 0, 2)), ShapeError);
  EXPECT_THROW(static_cast<void>(flatten(input({2, 3}), 1, 0)), ShapeError);
}

TEST(NoGrad, RecordsNothing) {
  const NoGradGuard guard;
  const Variable y = relu(input({3}));
  EXPECT_FALSE(y.requires_grad());
}

}  // namespace
}  // namespace lockstep::test
