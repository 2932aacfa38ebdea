#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <support/message_of.hpp>

#include <lockstep/autograd/check_gradients.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/categorical.hpp>
#include <lockstep/nn/init.hpp>

namespace lockstep::nn {
namespace {

using Doubles = std::vector<double>;

Variable row(const Doubles& values) {
  return Variable(Tensor::from(values, {1, static_cast<std::int64_t>(values.size())}), true);
}

TEST(Categorical, LogProbAndEntropyAreThoseOfTheFormula) {
  const Doubles p{0.1, 0.2, 0.7};
  const auto check = [&](const Categorical& d) {
    double entropy = 0;
    for (std::size_t c = 0; c < p.size(); ++c) {
      const Tensor value = Tensor::full({1}, static_cast<double>(c), DType::i64);
      EXPECT_NEAR(d.log_prob(value).data().item(), std::log(p[c]), 1e-15);
      entropy -= p[c] * std::log(p[c]);
    }
    EXPECT_NEAR(d.entropy().data().item(), entropy, 1e-15);
  };
  check(Categorical::from_probs(row({1, 2, 7})));
  check(Categorical::from_logits(row({std::log(0.1) + 5, std::log(0.2) + 5, std::log(0.7) + 5})));
}

// They would give a log-probability above 0.
TEST(Categorical, RefusesNegativeWeights) {
  EXPECT_THROW(static_cast<void>(Categorical::from_probs(row({1, -0.5, 0.5}))), InputError);
  EXPECT_NO_THROW(static_cast<void>(Categorical::from_probs(row({1, -0.0, 0.5}))));
}

TEST(Categorical, SamplesInProportionToTheProbabilities) {
  constexpr std::int64_t rows = 20000;
  Doubles weights;
  for (std::int64_t i = 0; i < rows; ++i) weights.insert(weights.end(), {1, 0, 2, 5});
  const auto d = Categorical::from_probs(Variable(Tensor::from(weights, {rows, 4})));
  Doubles counts(4, 0.0);
  for (const auto c : d.sample({.seed = 1}).to_vector<std::int64_t>()) {
    counts.at(static_cast<std::size_t>(c)) += 1.0 / rows;
  }
  const Doubles p{0.125, 0, 0.25, 0.625};
  for (std::size_t c = 0; c < 4; ++c) {
    EXPECT_LE(std::abs(counts[c] - p[c]), 5 * std::sqrt(p[c] * (1 - p[c]) / rows)) << c;
  }
}

TEST(Categorical, ASampleIsTheSameWhateverRankDrawsIt) {
  manual_seed(1);
  const Tensor logits = uniform({6, 5}, 2.0);
  const auto drawn = [&](std::int64_t begin, std::int64_t end) {
    const RandomContextGuard guard({.seed = 3, .step = 7, .first_sample = begin});
    return Categorical::from_logits(Variable(logits.slice(begin, end)))
        .sample()
        .to_vector<std::int64_t>();
  };
  auto parts = drawn(0, 2);
  const auto rest = drawn(2, 6);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, drawn(0, 6));
}

TEST(Categorical, DrawsAnewInEveryCallAndAgainAfterTheSameSeed) {
  const auto d = Categorical::from_logits(Variable(Tensor::zeros({50, 10})));
  const auto draw = [&] { return d.sample().to_vector<std::int64_t>(); };
  manual_seed(2);
  const auto first = draw(), second = draw();
  manual_seed(2);
  EXPECT_NE(first, second);
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
}

TEST(Categorical, GradientsAgreeWithDifferences) {
  const Variable logits = row({0.3, -1.0, 0.8, 0.1}), probs = row({0.3, 1.0, 0.8, 0.1});
  const Tensor value = Tensor::full({1}, 2, DType::i64);
  const auto loss = [&] {
    const auto a = Categorical::from_logits(logits), b = Categorical::from_probs(probs);
    return sum(a.log_prob(value) + mul(a.entropy(), 0.7) + b.log_prob(value) * b.entropy());
  };
  for (const auto& check : check_gradients(loss, {{"logits", logits}, {"probs", probs}})) {
    EXPECT_TRUE(check.ok()) << check.name << ": " << check.gradient << ", " << check.difference;
  }
}

TEST(Categorical, ImpossibleValuesHaveAFiniteLogProbAndNoShareInTheEntropy) {
  const Variable probs = row({0.0, 0.5, 0.5});
  const auto d = Categorical::from_probs(probs);
  EXPECT_TRUE(std::isfinite(d.log_prob(Tensor::zeros({1}, DType::i64)).data().item()));
  EXPECT_NEAR(d.entropy().data().item(), std::log(2.0), 1e-15);
  sum(d.entropy()).backward();
  for (const double g : probs.grad().to_vector<double>()) EXPECT_TRUE(std::isfinite(g));
}

TEST(Categorical, TakesProbabilitiesOf16Bits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto d = Categorical::from_probs(Variable(row({1.0, 3.0, 0.0}).data().to(dtype)));
    const auto log_prob = [&](double category) {
      return d.log_prob(Tensor::full({1}, category, DType::i64)).data().item();
    };
    EXPECT_NEAR(log_prob(0), std::log(0.25), 8e-3);
    EXPECT_NEAR(log_prob(1), std::log(0.75), 2e-3);
    EXPECT_NEAR(log_prob(2), std::log(std::numeric_limits<float>::min()), 0.5);
    EXPECT_LT(d.sample({1, 2, 3, 4}).item(), 2);
  }
}

TEST(Categorical, AMaskedLogitHasNoShareInTheEntropy) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Variable logits(row({-infinity, 0.0, 0.0}).data().to(dtype), true);
    const Variable entropy = Categorical::from_logits(logits).entropy();
    const double unit = dtype == DType::f64 ? 1e-15 : (dtype == DType::f32 ? 1e-6 : 1e-2);
    EXPECT_NEAR(entropy.data().item(), std::log(2.0), unit);
    sum(entropy).backward();
    for (const double g : logits.grad().to(DType::f64).to_vector<double>()) {
      EXPECT_NEAR(g, 0.0, unit);
    }
  }
}

TEST(Categorical, NamesRowsThatAreNoDistribution) {
  const auto said = [](const auto& call) { return test::message_of<Error>(call); };
  const double inf = std::numeric_limits<double>::infinity();
  for (const auto& weights : {Doubles{-1, 2}, {0, 0}, {std::nan(""), 1}, {inf, 1}}) {
    EXPECT_NE(said([&] { static_cast<void>(Categorical::from_probs(row(weights))); }).find("row 0"),
              std::string::npos);
  }
  for (const auto& logits : {Doubles{std::nan(""), 0}, {inf, 0}, {-inf, -inf}}) {
    EXPECT_NE(said([&] { static_cast<void>(Categorical::from_logits(row(logits))); }).find("row 0"),
              std::string::npos);
  }
  const auto d = Categorical::from_logits(row({-inf, 0.0}));
  EXPECT_THROW(static_cast<void>(Categorical::from_logits(Variable(Tensor::zeros({})))),
               ShapeError);
  EXPECT_NE(
      said([&] { static_cast<void>(d.log_prob(Tensor::zeros({2}, DType::i64))); }).find("[1]"),
      std::string::npos);
  const Tensor outside = Tensor::full({1}, 2, DType::i64);
  EXPECT_THROW(static_cast<void>(d.log_prob(outside)), InputError);
}

}  // namespace
}  // namespace lockstep::nn
