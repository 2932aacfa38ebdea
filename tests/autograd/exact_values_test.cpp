// Values and derivatives that rounding, overflow or cancellation would spoil: PyTorch 2.15's, or
// the formula's.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "doubles_of.hpp"
#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class T>
Variable row_of(const std::vector<T>& values) {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), true);
}

/// d sum(y) / dx.
std::vector<double> slopes_of(const Variable& y, const Variable& x) {
  weighted_sum(y, Tensor::full(y.shape(), 1.0, y.data().dtype())).backward();
  return doubles_of(x.grad());
}

void expect_relative(const std::vector<double>& values, const std::vector<double>& expected,
                     double bound) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_LE(std::abs(values[i] - expected[i]), bound * std::abs(expected[i]))
        << i << ": " << values[i] << " and not " << expected[i];
  }
}

TEST(ExactValues, DivisionByANumberDivides) {
  EXPECT_EQ(doubles_of(row_of<float>({41, 47, 55}) / 41.0)[0], 1.0);
  for (int n = 1; n < 100; ++n) {
    EXPECT_EQ(doubles_of(row_of<float>({static_cast<float>(n)}) / n)[0], 1.0) << n;
    EXPECT_EQ(doubles_of(static_cast<double>(n) / row_of<float>({static_cast<float>(n)}))[0], 1.0);
  }
  EXPECT_EQ(doubles_of(row_of<float>({0}) / 1e-40)[0], 0.0);
  EXPECT_EQ(doubles_of(row_of<double>({0}) / 1e-310)[0], 0.0);
  EXPECT_EQ(doubles_of(0.0 / row_of<float>({1e-40F}))[0], 0.0);
  const Variable x = row_of<float>({41});
  EXPECT_EQ(slopes_of(x / 41.0, x)[0], static_cast<double>(1.0F / 41.0F));
  const Variable y = row_of<double>({0.5});
  EXPECT_EQ(slopes_of(3.0 / y, y)[0], -12.0);
}

TEST(ExactValues, MeansOfEqualNumbersAreThatNumber) {
  for (const std::int64_t width : {3, 41, 47, 55}) {
    const Variable x(Tensor::full({1, 1, width}, 1.0));
    EXPECT_EQ(avg_pool1d(x, {.kernel = width, .stride = width}).data().item(), 1.0) << width;
    const Variable weight(Tensor::full({width}, 1.0)), bias(Tensor::zeros({width}));
    const Variable rows(Tensor::full({2, width}, 1024.0));
    for (const double y : doubles_of(layer_norm(rows, weight, bias, 1e-12))) EXPECT_EQ(y, 0.0);
  }
}

TEST(ExactValues, GeluHasAllItsDigitsWhereItIsSmall) {
  const std::vector<double> at{-0.1, -1, -3, -5, -5.3, -5.5, -9, -12.9, 0.1, 2, 7};
  std::vector<double> value, slope, bend;
  for (const double x : at) {
    const double cdf = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    value.push_back(x * cdf);
    slope.push_back(cdf + x * density);
    bend.push_back(density * (2.0 - x * x));
  }
  EXPECT_NEAR(value[3], -1.43326e-6, 1e-11);
  EXPECT_NEAR(value[5], -1.04443e-7, 1e-12);
  const Variable exact = row_of(at);
  const Variable first = grad(sum(gelu(exact)), exact, {.create_graph = true});
  expect_relative(doubles_of(gelu(exact)), value, 1e-13);
  expect_relative(doubles_of(first), slope, 1e-12);
  expect_relative(slopes_of(gelu(exact), exact), slope, 1e-12);
  expect_relative(doubles_of(grad(sum(first), exact)), bend, 1e-12);

  const Variable x = row_of(std::vector<float>(at.begin(), at.end()));
  const Variable same(x.data().to(DType::f64), true);
  expect_relative(doubles_of(gelu(x)), doubles_of(gelu(same)), 6e-7);
  expect_relative(slopes_of(gelu(x), x), slopes_of(gelu(same), same), 3e-6);
}

TEST(ExactValues, TanhGeluHasASecondDerivativeWhereItIsSmall) {
  const std::vector<double> at{-4.5, -3, -0.5, 1};
  const auto second = [](const Variable& x) {
    const Variable first = grad(sum(gelu(x, Gelu::tanh)), x, {.create_graph = true});
    return doubles_of(grad(sum(first), x));
  };
  const Variable narrow = row_of(std::vector<float>(at.begin(), at.end())), wide = row_of(at);
  expect_relative(second(narrow), second(wide), 2e-5);
}

TEST(ExactValues, TransposedConvolutionsPadTheirOutputByAStrideOrMore) {
  // Ones, [1, 1, 4], kernel 3, dilation 2, output_padding 1, as PyTorch has it.
  const auto expect_all = [](const Tensor& t, double value) {
    for (const double x : doubles_of(t)) EXPECT_EQ(x, value);
  };
  const auto ones = [](const Shape& shape) { return Variable(Tensor::full(shape, 1.0), true); };
  {
    const Variable x = ones({1, 1, 4}), w = ones({1, 1, 3});
    const Variable y = conv_transpose1d(x, w, {}, {.output_padding = {1}, .dilation = {2}});
    EXPECT_EQ(y.shape(), (Shape{1, 1, 9}));
    sum(y).backward();
    expect_all(w.grad(), 4);
    expect_all(x.grad(), 3);
  }
  {
    const Variable x = ones({1, 1, 3}), w = ones({1, 1, 1});
    const Variable y = conv_transpose1d(x, w, {}, {.output_padding = {2}, .dilation = {3}});
    EXPECT_EQ(y.data().to_vector<float>(), (std::vector<float>{1, 1, 1, 0, 0}));
  }
  {
    const Variable x = ones({1, 16, 4, 4}), w = ones({16, 16, 3, 3});
    const Variable y = conv_transpose2d(x, w, {}, {.output_padding = {1, 1}, .dilation = {2, 2}});
    EXPECT_EQ(y.shape(), (Shape{1, 16, 9, 9}));
    EXPECT_EQ(sum(y).data().item(), 16.0 * 16 * 16 * 9);
    sum(y).backward();
    expect_all(w.grad(), 16);
    expect_all(x.grad(), 16 * 9);
  }
  {
    const Variable x = ones({1, 1, 2, 3, 4}), w = ones({1, 1, 3, 3, 3});
    const Variable y =
        conv_transpose3d(x, w, {}, {.output_padding = {2, 1, 0}, .dilation = {3, 2, 1}});
    EXPECT_EQ(y.shape(), (Shape{1, 1, 10, 8, 6}));
    sum(y).backward();
    expect_all(w.grad(), 24);
    expect_all(x.grad(), 27);
  }
}

TEST(ExactValues, NormsDoNotOverflow) {
  const auto length = [](const auto& x, double p) { return norm(row_of(x), p).data().item(); };
  for (const double scale : {1e20, 1e-30, 8e37, 1.0}) {
    const auto s = static_cast<float>(scale);
    const std::vector<float> x{3 * s, -4 * s};
    if (scale < 8e37) {
      EXPECT_NEAR(length(x, 2) / (5 * scale), 1.0, 1e-6);
    }
    EXPECT_NEAR(length(x, infinite) / (4 * scale), 1.0, 1e-6) << scale;
    EXPECT_NEAR(length(x, -infinite) / (3 * scale), 1.0, 1e-6) << scale;
    EXPECT_EQ(length(x, 0), 2.0);
  }
  EXPECT_NEAR(length(std::vector<double>{3e200, 4e200}, 2) / 5e200, 1.0, 1e-14);
  EXPECT_NEAR(length(std::vector<double>{3e-200, 4e-200}, 2) / 5e-200, 1.0, 1e-14);
  EXPECT_NEAR(length(std::vector<double>{1e150, 1e150}, 3) / (1e150 * std::cbrt(2.0)), 1.0, 1e-14);
  EXPECT_TRUE(std::isnan(length(std::vector<float>{1, NAN}, 2)));
  EXPECT_TRUE(std::isnan(length(std::vector<float>{NAN, 1}, infinite)));
  EXPECT_EQ(length(std::vector<float>{1, static_cast<float>(infinite)}, 2), infinite);
}

TEST(ExactValues, ANormsGradientAtZeroIsZero) {
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, infinite, -infinite}) {
    const Variable x = row_of<float>({0, 0});
    EXPECT_EQ(slopes_of(norm(x, p), x), (std::vector<double>{0, 0})) << p;
    const Variable one(Tensor::full({1, 2}, 2.0), true), same(Tensor::full({1, 2}, 2.0));
    if (p > 0) {
      EXPECT_EQ(slopes_of(pairwise_distance(one, same, p, 0.0), one), (std::vector<double>{0, 0}));
    }
  }
}

TEST(ExactValues, NormsAndTheirGradientsAgreeWithCentralDifferences) {
  for (const double p : {-1.5, 0.7, 1.0, 1.5, 2.0, 3.0, infinite}) {
    for (const Dims& dims : {Dims{}, Dims{1}, Dims{0, 2}, Dims{-1}}) {
      SCOPED_TRACE(p);
      expect_gradients([&](const std::vector<Variable>& v) { return norm(v[0], p, dims, true); },
                       {random_tensor({3, 4, 2}, 5)});
    }
  }
}

TEST(ExactValues, LongVectorsHaveACosineAndADirection) {
  for (const float scale : {1e20F, 1e-20F, 1.0F}) {
    const Variable x(Tensor::from(std::vector<float>{scale, 2 * scale}, {1, 2}), true);
    EXPECT_NEAR(cosine_similarity(x, x, 1, 1e-30).data().item(), 1.0, 3e-7) << scale;
    EXPECT_NEAR(norm(normalize(x, 2.0, 1, 1e-30)).data().item(), 1.0, 3e-7) << scale;
  }
  const Variable x(Tensor::from(std::vector<float>{1e20F, 2e20F}, {1, 2}), true);
  EXPECT_NEAR(cosine_embedding_loss(x, x, Tensor::full({1}, 1.0)).data().item(), 0.0, 3e-7);
  const Variable zero(Tensor::zeros({1, 2}), true), one(Tensor::full({1, 2}, 1.0));
  EXPECT_EQ(cosine_similarity(zero, one).data().item(), 0.0);
  for (const double g : slopes_of(cosine_similarity(zero, one), zero))
    EXPECT_TRUE(std::isfinite(g));
}

// Such a length is no number to divide by: PyTorch 2.15's results.
TEST(ExactValues, VectorsOfInfiniteLengthHaveNoDirection) {
  const auto row = [](float a, float b) {
    return Variable(Tensor::from(std::vector<float>{a, b}, {1, 2}));
  };
  const Variable longest = row(3e38F, 3e38F), one = row(3, 4);
  const Variable infinitely_long = row(static_cast<float>(infinite), 1);
  const auto loss = [&](const Variable& x, double target) {
    return cosine_embedding_loss(x, one, Tensor::full({1}, target)).data().item();
  };
  EXPECT_EQ(doubles_of(normalize(longest)), (std::vector<double>{0, 0}));
  EXPECT_EQ(cosine_similarity(longest, longest).data().item(), 0.0);
  EXPECT_TRUE(std::isnan(doubles_of(normalize(infinitely_long))[0]));
  EXPECT_EQ(doubles_of(normalize(infinitely_long))[1], 0.0);
  EXPECT_TRUE(std::isnan(cosine_similarity(infinitely_long, one).data().item()));
  for (const double target : {1.0, -1.0}) {
    EXPECT_TRUE(std::isnan(loss(longest, target)));
    EXPECT_TRUE(std::isnan(loss(infinitely_long, target)));
  }
}

TEST(ExactValues, SpreadsAreThoseOfTheFormulas) {
  const Variable x = row_of<double>({1, 2, 4, 9});
  EXPECT_NEAR(var(x).data().item(), 38.0 / 3, 1e-14);
  EXPECT_NEAR(var(x, {}, 0.0).data().item(), 38.0 / 4, 1e-14);
  EXPECT_NEAR(std(x).data().item(), std::sqrt(38.0 / 3), 1e-14);
  EXPECT_TRUE(std::isnan(var(row_of<float>({1})).data().item()));
  EXPECT_EQ(var(row_of<float>({1, 2}), {}, 3.0).data().item(), infinite);
  for (const bool root : {false, true}) {  // of one element
    const Variable one = row_of<float>({3});
    const auto spread = [&](double correction) {
      return root ? std(one, {}, correction) : var(one, {}, correction);
    };
    EXPECT_TRUE(std::isnan(spread(1.0).data().item()));
    EXPECT_TRUE(std::isnan(slopes_of(spread(1.0), one)[0]));
    one.zero_grad();
    EXPECT_EQ(slopes_of(spread(0.0), one)[0], 0.0);
  }
  const Variable few = row_of<float>({5, 5});
  for (const double slope : slopes_of(std(few, {}, 3.0), few)) EXPECT_TRUE(std::isnan(slope));
  const Variable equal = row_of<float>({1, 1, 1});
  EXPECT_EQ(slopes_of(std(equal), equal), (std::vector<double>{0, 0, 0}));
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return var(v[0], {1}) + std(v[0], {0, 1});
      },
      {random_tensor({4, 5}, 3)});
}

TEST(ExactValues, AScalarHasTheDimensionsZeroAndMinusOne) {
  const Variable x(Tensor::full({}, 3.0), true);
  for (const int dim : {0, -1}) {
    const auto expect = [&](const Variable& y, double value, double slope) {
      EXPECT_EQ(y.shape(), Shape{});
      EXPECT_EQ(y.data().item(), value);
      x.zero_grad();
      y.backward();
      EXPECT_NEAR(x.grad().item(), slope, 1e-7);
    };
    expect(softmax(x, dim), 1, 0);
    expect(log_softmax(x, dim), 0, 0);
    expect(cumsum(x, dim), 3, 1);
    expect(logsumexp(x, dim), 3, 1);
    expect(normalize(x, 2.0, dim), 1, 0);
    expect(norm(x, 2.0, {dim}), 3, 1);
    expect(sum(x, {dim}), 3, 1);
    expect(mean(x, {dim}, true), 3, 1);
    expect(amax(x, {dim}), 3, 1);
    expect(transpose(x, dim, -1), 3, 1);
    expect(gather(x, dim, Tensor::zeros({}, DType::i64)), 3, 1);
    for (const OrderResult& order : {sort(x, dim), topk(x, 1, dim)}) {
      expect(order.values, 3, 1);
      EXPECT_EQ(order.indices.item(), 0);
    }
    const MaxResult largest = max(x, dim);
    expect(largest.values, 3, 1);
    EXPECT_EQ(largest.indices.item(), 0);
    EXPECT_EQ(argmax(x, dim).item(), 0);
    EXPECT_TRUE(std::isnan(var(x, {dim}).data().item()));
    EXPECT_THROW(static_cast<void>(narrow(x, dim, 0, 1)), ShapeError);
    EXPECT_THROW(static_cast<void>(split(x, std::vector<std::int64_t>{1}, dim)), ShapeError);
    EXPECT_THROW(static_cast<void>(concat({x, x}, dim)), ShapeError);
    EXPECT_THROW(static_cast<void>(glu(x, dim)), ShapeError);
    EXPECT_THROW(static_cast<void>(topk(x, 2, dim)), ShapeError);
  }
  EXPECT_THROW(static_cast<void>(softmax(x, 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(sum(x, {-2})), ShapeError);
  EXPECT_THROW(static_cast<void>(sum(x, {0, -1})), ShapeError);
}

TEST(ExactValues, ANegativeStartOfNarrowCountsFromTheEnd) {
  const Variable x = row_of<float>({0, 1, 2, 3});
  EXPECT_EQ(doubles_of(narrow(x, -1, -3, 2)), (std::vector<double>{1, 2}));
  EXPECT_EQ(doubles_of(narrow(x, 0, -4, 4)), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(slopes_of(narrow(x, -1, -3, 2), x), (std::vector<double>{0, 1, 1, 0}));
  EXPECT_THROW(static_cast<void>(narrow(x, 0, -5, 1)), ShapeError);
  EXPECT_THROW(static_cast<void>(narrow(x, 0, -1, 2)), ShapeError);
}

TEST(ExactValues, IndicesMayBeOf32Bits) {
  const Tensor wide = Tensor::from(std::vector<std::int64_t>{2, 0, 1}, {3}),
               narrow_ones = wide.to(DType::i32);
  const Variable x = row_of<float>({1, 2, 3, 4, 5, 6, 7, 8, 10});
  const auto slopes_by = [&](const auto& f, const Tensor& index) {
    x.zero_grad();
    return slopes_of(f(reshape(x, {3, 3}), index), x);
  };
  const auto expect_equal = [&](const auto& f) {
    EXPECT_EQ(slopes_by(f, narrow_ones), slopes_by(f, wide));
  };
  using V = const Variable&;
  using T = const Tensor&;
  expect_equal([](V m, T index) { return cross_entropy(m, index); });
  expect_equal([](V m, T index) { return nll_loss(m, index); });
  expect_equal([](V m, T index) { return linear_cross_entropy(m, m, index); });
  expect_equal([](V m, T index) { return embedding(index, m); });
  expect_equal([](V m, T index) { return embedding_bag(index.reshape({1, 3}), m); });
  expect_equal(
      [](V m, T index) { return embedding_bag(index, m, Tensor::zeros({1}, index.dtype())); });
}

TEST(ExactValues, AProductsGradientIsTheProductOfTheOthers) {
  const Variable one_zero = row_of<float>({0, 3, 2}), two = row_of<float>({0, 0, 2});
  EXPECT_EQ(prod(row_of<float>({2, 3, 5, 7, 11})).data().item(), 2310.0);
  EXPECT_EQ(slopes_of(prod(one_zero), one_zero), (std::vector<double>{6, 0, 0}));
  EXPECT_EQ(slopes_of(prod(two), two), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(prod(Variable(Tensor::zeros({2, 0})), {1}).data().to_vector<float>(),
            (std::vector<float>{1, 1}));
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return prod(v[0], {0, 2});
      },
      {random_tensor({3, 2, 3}, 4)});
}

TEST(ExactValues, LargestAndSmallestAreFound) {
  const Variable x(Tensor::from(std::vector<float>{1, 3, 3, -2, 5, -2}, {2, 3}));
  EXPECT_EQ(argmax(x, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(argmin(x, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 0}));
  EXPECT_EQ(argmax(x, 0, true).shape(), (Shape{1, 3}));
  EXPECT_EQ(argmax(x).item(), 4);
  EXPECT_EQ(argmin(x).item(), 3);
  EXPECT_EQ(argmax(row_of<float>({1, NAN, 3})).item(), 1);
  EXPECT_EQ(argmin(row_of<float>({1, NAN, 3})).item(), 1);
}

TEST(ExactValues, AnglesAreThoseOfThePoints) {
  const Variable y = row_of<double>({0, 1, 0, -1, 1e200}), x = row_of<double>({0, 1, -1, 0, 1e200});
  const double pi = std::numbers::pi;
  expect_relative(doubles_of(lockstep::atan2(y, x)), {0, pi / 4, pi, -pi / 2, pi / 4}, 1e-15);
  expect_relative(slopes_of(lockstep::atan2(y, x), y), {0, 0.5, -1, 0, 5e-201}, 1e-15);
  expect_gradients([](const std::vector<Variable>& v) { return lockstep::atan2(v[0], v[1] * 3.0); },
                   {random_tensor({4, 1}, 3), random_tensor({5}, 4)});
}

TEST(ExactValues, BinaryCrossEntropyHasWeights) {
  const std::vector<double> x{-2, 0.5, 3, 40, -40, 0}, t{1, 0, 0.25, 1, 0, 1},
      w{1, 2, 0.5, 1, 3, 0};
  const Tensor target = Tensor::from(t, {2, 3}), weight = Tensor::from(w, {2, 3});
  const Tensor positive = Tensor::from(std::vector<double>{2, 1, 5}, {3});
  std::vector<double> expected, unweighted;
  for (std::size_t i = 0; i < 6; ++i) {
    const double p = positive.to_vector<double>()[i % 3];
    const auto softplus_of = [](double z) {
      return std::max(z, 0.0) + std::log1p(std::exp(-std::abs(z)));
    };
    expected.push_back(w[i] * (p * t[i] * softplus_of(-x[i]) + (1 - t[i]) * softplus_of(x[i])));
    unweighted.push_back(w[i] * (t[i] * softplus_of(-x[i]) + (1 - t[i]) * softplus_of(x[i])));
  }
  const Variable logits(Tensor::from(x, {2, 3}), true);
  const auto loss = [&](Reduction r) {
    return binary_cross_entropy_with_logits(logits, target, r, weight, positive);
  };
  expect_relative(doubles_of(loss(Reduction::none)), expected, 1e-14);
  expect_relative({loss(Reduction::sum).data().item()},
                  {std::accumulate(expected.begin(), expected.end(), 0.0)}, 1e-14);
  expect_relative({loss(Reduction::mean).data().item()},
                  {std::accumulate(expected.begin(), expected.end(), 0.0) / 6}, 1e-14);
  expect_relative(
      doubles_of(binary_cross_entropy_with_logits(logits, target, Reduction::none, weight)),
      unweighted, 1e-14);
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return binary_cross_entropy_with_logits(v[0], target, Reduction::mean, weight, positive);
      },
      {random_tensor({2, 3}, 3)});
}

TEST(ExactValues, BinaryCrossEntropyOfProbabilitiesIsThatOfTheirLogits) {
  const Tensor target = Tensor::from(std::vector<double>{1, 0, 0.25, 0.5}, {4});
  const Tensor weight = Tensor::from(std::vector<double>{1, 2, 3, 0.5}, {4});
  const Variable logits = row_of<double>({-2, 0.5, 3, -0.1});
  expect_relative(
      doubles_of(binary_cross_entropy(sigmoid(logits), target, Reduction::none, weight)),
      doubles_of(binary_cross_entropy_with_logits(logits, target, Reduction::none, weight)), 1e-14);
  const Variable ends = row_of<float>({0, 1, 1e-10F});
  EXPECT_EQ(doubles_of(binary_cross_entropy(ends, Tensor::from(std::vector<float>{1, 0, 0}, {3}),
                                            Reduction::none)),
            (std::vector<double>{100, 100, static_cast<double>(1e-10F)}));
  EXPECT_THROW(static_cast<void>(binary_cross_entropy(row_of<float>({1.5F}), Tensor::zeros({1}))),
               InputError);
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return binary_cross_entropy(sigmoid(v[0]), target, Reduction::sum, weight);
      },
      {random_tensor({4}, 3)});
}

// -sum(w t log_softmax(x)), averaged over the samples, t smoothed first: PyTorch's rule.
TEST(ExactValues, CrossEntropyTakesProbabilities) {
  const Variable x(Tensor::from(std::vector<double>{1, 2, 3}, {1, 3}));
  const Tensor target = Tensor::from(std::vector<double>{0.2, 0.3, 0.1}, {1, 3});
  const Tensor weight = Tensor::from(std::vector<double>{1, 2, 3}, {3});
  const auto p = doubles_of(log_softmax(x, 1));
  double expected = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    const double t = 0.9 * target.to_vector<double>()[c] + 0.1 / 3;
    expected -= static_cast<double>(c + 1) * t * p[c];
  }
  EXPECT_NEAR(expected, 1.5184, 5e-5) << "PyTorch's";
  const LossOptions options{.class_weight = weight, .label_smoothing = 0.1};
  EXPECT_NEAR(cross_entropy(x, target, options).data().item(), expected, 1e-14);

  // Certain classes are classes.
  const Variable logits(random_tensor({4, 3, 2}, 5));
  const Tensor classes = Tensor::from(std::vector<std::int64_t>{0, 1, 2, 1, 0, 0, 2, 2}, {4, 2});
  std::vector<double> certain(24, 0.0);
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t i = 0; i < 2; ++i)
      certain[n * 6 + static_cast<std::size_t>(classes.to_vector<std::int64_t>()[n * 2 + i]) * 2 +
              i] = 1;
  for (const double smoothing : {0.0, 0.2}) {
    for (const auto r : {Reduction::none, Reduction::mean, Reduction::sum}) {
      const LossOptions plain{.reduction = r, .label_smoothing = smoothing};
      expect_relative(doubles_of(cross_entropy(logits, Tensor::from(certain, {4, 3, 2}), plain)),
                      doubles_of(cross_entropy(logits, classes, plain)), 1e-13);
    }
  }
  EXPECT_THROW(static_cast<void>(cross_entropy(x, target, {.ignore_index = 1})), InputError);
  EXPECT_THROW(static_cast<void>(cross_entropy(x, Tensor::zeros({3, 1}))), ShapeError);
}

TEST(ExactValues, DropoutOfEverythingGivesZeros) {
  const Variable x = row_of<float>({1, -1, static_cast<float>(infinite), NAN});
  const Variable y = dropout(x, 1.0, {.seed = 3});
  EXPECT_EQ(doubles_of(y), (std::vector<double>{0, 0, 0, 0}));
  EXPECT_EQ(slopes_of(y, x), (std::vector<double>{0, 0, 0, 0}));
}

TEST(ExactValues, InterpolationByAFactorThatKeepsTheExtentIsTheIdentity) {
  const std::array<double, 1> factor{1.274};
  const Variable x(Tensor::from(std::vector<float>{3, 7}, {1, 1, 2}));
  EXPECT_EQ(doubles_of(interpolate_by(x, factor, Interpolation::linear)),
            (std::vector<double>{3, 7}));
  EXPECT_EQ(doubles_of(interpolate_by(x, factor)), (std::vector<double>{3, 7}));
  const std::array<double, 1> twice{2.1};
  EXPECT_EQ(doubles_of(interpolate_by(x, twice)), (std::vector<double>{3, 3, 7, 7}));
  const std::array<double, 2> factors{1.3, 1.9};
  const Variable image(Tensor::from(std::vector<double>{1, 2, 3, 4, 5, 6}, {1, 1, 3, 2}));
  const Variable y = interpolate_by(image, factors, Interpolation::bilinear);
  EXPECT_EQ(y.shape(), (Shape{1, 1, 3, 3}));
  EXPECT_EQ(doubles_of(y)[0], 1.0);
  EXPECT_EQ(doubles_of(y)[3], 3.0) << "along the first extent nothing moves";
}

TEST(ExactValues, AnEmptyTargetInNoFramesHasLossZero) {
  const Variable x = log_softmax(Variable(random_tensor({3, 2, 4}, 3), true), 2);
  const auto whole = [](const std::vector<std::int64_t>& v) {
    return Tensor::from(v, {static_cast<std::int64_t>(v.size())});
  };
  const auto losses =
      doubles_of(ctc_loss(x, whole({1}), whole({0, 0}), whole({0, 1}), 0, Reduction::none));
  EXPECT_EQ(losses[0], 0.0);
  EXPECT_EQ(losses[1], infinite);
  const Variable frames(random_tensor({3, 1, 4}, 3), true);
  ctc_loss(frames, whole({}), whole({0}), whole({0})).backward();
  for (const double g : doubles_of(frames.grad())) EXPECT_EQ(g, 0.0);
}

TEST(ExactValues, HubersParabolaMayBeNarrow) {
  const Tensor target = Tensor::zeros({3});
  const Variable x = row_of<float>({0, 1e-41F, 2});
  EXPECT_EQ(doubles_of(smooth_l1_loss(x, target, Reduction::none, 1e-40))[0], 0.0);
  for (const double g : slopes_of(smooth_l1_loss(x, target, Reduction::sum, 1e-40), x))
    EXPECT_TRUE(std::isfinite(g));
}

TEST(ExactValues, NegativeVariancesAreRefused) {
  const Variable x = row_of<float>({0, 1}), var = row_of<float>({1, -0.5F});
  EXPECT_THROW(static_cast<void>(gaussian_nll_loss(x, x.data(), var)), InputError);
}

}  // namespace
}  // namespace lockstep::test
