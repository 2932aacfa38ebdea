// LARS and LAMB against their papers' algorithms, written out in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include <support/larger.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/layer_wise.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using test::parameter;
using test::set_grad;
using test::values;
using test::waves;
using Numbers = std::vector<double>;

double norm(const Numbers& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}

/// arXiv:1708.03888, algorithm 1, one layer.
struct LarsOracle {
  optim::LarsOptions options;
  Numbers w, v = Numbers(w.size());

  void step(const Numbers& g) {
    const double ratio =
        options.trust_coefficient * norm(w) / (norm(g) + options.weight_decay * norm(w));
    for (std::size_t i = 0; i < w.size(); ++i) {
      v[i] = options.momentum * v[i] + options.lr * ratio * (g[i] + options.weight_decay * w[i]);
      w[i] = w[i] - v[i];
    }
  }
};

/// arXiv:1904.00962, algorithm 2, one layer.
struct LambOracle {
  optim::LambOptions options;
  Numbers x, m = Numbers(x.size()), v = Numbers(x.size());
  int t = 0;

  void step(const Numbers& g) {
    ++t;
    const double beta1 = options.betas[0], beta2 = options.betas[1];
    Numbers u(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double mean = m[i] / (1 - std::pow(beta1, t)), square = v[i] / (1 - std::pow(beta2, t));
      u[i] = mean / (std::sqrt(square) + options.eps) + options.weight_decay * x[i];
    }
    const double ratio = norm(x) / norm(u);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= options.lr * ratio * u[i];
  }
};

constexpr std::int64_t n = 777;  // of no vector's width

/// 20 steps of `Optimizer` beside its oracle.
template <class Optimizer, class Oracle>
void expect_as_oracle(Oracle oracle, Numbers Oracle::*weights, DType dtype, double tolerance) {
  const nn::NamedParameter p{"w",
                             Variable(Tensor::from(oracle.*weights, {n}).to(dtype).clone(), true)};
  Optimizer optimizer({p}, oracle.options);
  for (int s = 0; s < 20; ++s) {
    // What a float can hold, so that both see the same gradient.
    const auto gradient =
        Tensor::from(waves(n, s), {n}).to(DType::f32).to(DType::f64).template to_vector<double>();
    oracle.step(gradient);
    set_grad(p.variable, gradient);
    optimizer.step();
    const auto ours = p.variable.data().to(DType::f64).template to_vector<double>();
    double worst = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
      worst = test::larger(worst, std::abs(ours[i] - (oracle.*weights)[i]));
    ASSERT_LE(worst, tolerance * norm(oracle.*weights)) << "step " << s;
  }
}

Numbers start() {
  return Tensor::from(waves(n, 0.3), {n}).to(DType::f32).to(DType::f64).to_vector<double>();
}

TEST(Lars, TwentyStepsFollowThePaper) {
  const LarsOracle oracle{
      {.lr = 2.0, .momentum = 0.9, .weight_decay = 0.05, .trust_coefficient = 0.02}, start()};
  expect_as_oracle<optim::LARS>(oracle, &LarsOracle::w, DType::f64, 1e-14);
  expect_as_oracle<optim::LARS>(oracle, &LarsOracle::w, DType::f32, 1e-7);
}

TEST(Lamb, TwentyStepsFollowThePaper) {
  const LambOracle oracle{{.lr = 0.05, .eps = 1e-6, .weight_decay = 0.1}, start()};
  expect_as_oracle<optim::LAMB>(oracle, &LambOracle::x, DType::f64, 1e-14);
  expect_as_oracle<optim::LAMB>(oracle, &LambOracle::x, DType::f32, 1e-7);
}

/// The length of the first step from `start` along `gradient`.
template <class Optimizer, class Options>
double first_step(const Options& options, const Numbers& start, const Numbers& gradient) {
  const nn::NamedParameter p{"w", Variable(Tensor::from(start, {std::ssize(start)}), true)};
  Optimizer optimizer({p}, options);
  set_grad(p.variable, gradient);
  optimizer.step();
  Numbers moved = p.variable.data().to_vector<double>();
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] -= start[i];
  return norm(moved);
}

TEST(Lars, AStepIsAsLongAsItsShareOfTheLayersNormWhateverTheGradientsSize) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    Numbers gradient = waves(n, 5);
    for (double& g : gradient) g *= size;
    EXPECT_NEAR(first_step<optim::LARS>(optim::LarsOptions{.lr = 2.0, .trust_coefficient = 0.01},
                                        start(), gradient),
                2.0 * 0.01 * norm(start()), 1e-12 * norm(start()));
  }
}

TEST(Lamb, AStepIsAsLongAsItsShareOfTheLayersNormWhateverTheGradientsSize) {
  for (const double size : {1e-3, 1.0, 1e3}) {
    Numbers gradient = waves(n, 5);
    for (double& g : gradient) g *= size;
    EXPECT_NEAR(first_step<optim::LAMB>(optim::LambOptions{.lr = 0.25}, start(), gradient),
                0.25 * norm(start()), 1e-12 * norm(start()));
  }
}

TEST(LayerWise, ALayerOfZerosLeavesThemWithRatioOne) {
  const Numbers zeros(3), ones(3, 1.0);
  EXPECT_DOUBLE_EQ(first_step<optim::LARS>(optim::LarsOptions{.lr = 0.5}, zeros, ones),
                   0.5 * norm(ones));
  EXPECT_NEAR(first_step<optim::LAMB>(optim::LambOptions{.lr = 0.5}, zeros, ones), 0.5 * norm(ones),
              1e-6);
}

TEST(LayerWise, AGradientOfZerosDecaysWithRatioOneInLarsAndByTheNormInLamb) {
  const Numbers zeros(3), ones(3, 1.0);
  EXPECT_DOUBLE_EQ(
      first_step<optim::LARS>(optim::LarsOptions{.lr = 0.5, .weight_decay = 0.5}, ones, zeros),
      0.25 * norm(ones));
  EXPECT_DOUBLE_EQ(
      first_step<optim::LAMB>(optim::LambOptions{.lr = 0.5, .weight_decay = 0.5}, ones, zeros),
      0.5 * norm(ones));
  EXPECT_EQ(first_step<optim::LAMB>(optim::LambOptions{.lr = 0.5}, ones, zeros), 0.0);
}

TEST(LayerWise, NamesThatAreNotAdaptedAreSteppedWithRatioOne) {
  const auto weight = parameter("fc.weight", {4.0F}), bias = parameter("fc.bias", {4.0F});
  optim::LARS lars({weight, bias}, {.lr = 0.5, .not_adapted = {"*.bias"}});
  set_grad(weight.variable, 2.0);
  set_grad(bias.variable, 2.0);
  lars.step();
  EXPECT_FLOAT_EQ(values(weight)[0], 4.0F - 0.5F * 1e-3F * 4.0F);
  EXPECT_EQ(values(bias)[0], 3.0F);
  EXPECT_THROW(optim::LAMB({weight}, {.not_adapted = {"*.biass"}}), InputError);
}

TEST(LayerWise, OptionsOutOfRangeAreRefused) {
  const auto p = parameter("w", {1.0F});
  EXPECT_THROW(optim::LARS({p}, {.lr = -1.0}), InputError);
  EXPECT_THROW(optim::LARS({p}, {.momentum = -1.0}), InputError);
  EXPECT_THROW(optim::LARS({p}, {.weight_decay = -1.0}), InputError);
  EXPECT_THROW(optim::LARS({p}, {.trust_coefficient = std::nan("")}), InputError);
  EXPECT_THROW(optim::LAMB({p}, {.betas = {1.0, 0.9}}), InputError);
  EXPECT_THROW(optim::LAMB({p}, {.betas = {0.9, -0.1}}), InputError);
  EXPECT_THROW(optim::LAMB({p}, {.eps = -1.0}), InputError);
  EXPECT_THROW(optim::LAMB({p}, {.weight_decay = -1.0}), InputError);
}

}  // namespace
}  // namespace lockstep
