// What the golden trajectories do not show.
#include <cmath>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/lion.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using test::set_grad;
using test::waves;

// Algorithm 2 of arXiv:2302.06675, element by element.
TEST(Lion, StepsAreTheAlgorithms) {
  const std::size_t n = 37;
  std::vector<double> expected = waves(n, 0.3), mean(n, 0.0);
  const Variable w(Tensor::from(expected, {static_cast<std::int64_t>(n)}), true);
  optim::Lion lion({{"w", w}}, {.lr = 0.01, .betas = {0.8, 0.95}, .weight_decay = 0.1});
  for (int step = 0; step < 10; ++step) {
    auto gradient = waves(n, step);
    gradient[5] = 0.0;  // its sign is 0: only the decay moves it
    set_grad(w, gradient);
    lion.step();
    for (std::size_t i = 0; i < n; ++i) {
      const double c = 0.8 * mean[i] + (1.0 - 0.8) * gradient[i];
      const double sign = c > 0 ? 1.0 : (c < 0 ? -1.0 : 0.0);
      expected[i] -= 0.01 * (sign + 0.1 * expected[i]);
      mean[i] = 0.95 * mean[i] + (1.0 - 0.95) * gradient[i];
    }
    const auto actual = w.data().to_vector<double>();
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(actual[i], expected[i], 1e-14) << i;
  }
}

TEST(Lion, ANanGradientShowsInTheParameter) {
  const Variable w(Tensor::from(std::vector<double>{1.0}, {1}), true);
  optim::Lion lion({{"w", w}});
  set_grad(w, std::nan(""));
  lion.step();
  EXPECT_TRUE(std::isnan(w.data().to_vector<double>()[0]));
}

TEST(Adagrad, SumsBeginWithTheInitialValue) {
  const Variable w(Tensor::from(std::vector<double>{1.0}, {1}), true);
  optim::Adagrad adagrad({{"w", w}}, {.lr = 1.0, .initial_accumulator_value = 3.0});
  EXPECT_EQ(adagrad.state_dict().find("w/sum")->tensor.item(), 3.0);
  set_grad(w, 1.0);
  adagrad.step();
  EXPECT_NEAR(w.data().to_vector<double>()[0], 1.0 - 1.0 / 2.0, 1e-9);
}

// PyTorch's ASGD averages from the step after t0 + 1 on; until then the average is the parameter.
TEST(Asgd, AverageIsTheMeanOfTheParametersAfterT0) {
  const Variable w(Tensor::from(std::vector<double>{1.0}, {1}), true);
  optim::ASGD asgd({{"w", w}}, {.lr = 0.1, .lambd = 0.0, .t0 = 2.0});
  std::vector<double> seen;
  for (int step = 1; step <= 8; ++step) {
    set_grad(w, 0.25 * step);
    asgd.step();
    seen.push_back(w.data().to_vector<double>()[0]);
    double average = seen.back();
    if (step > 4) {
      average = 0.0;
      for (std::size_t k = 3; k < seen.size(); ++k) average += seen[k];
      average /= static_cast<double>(seen.size() - 3);
    }
    EXPECT_NEAR(asgd.state_dict().find("w/ax")->tensor.item(), average, 1e-14) << step;
  }
}

// Decoupled decay alone: without gradients only p *= 1 - lr weight_decay is left.
template <class Optimizer, class Options>
void expect_shrinks(const Options& options) {
  const Variable w(Tensor::from(std::vector<double>{2.0}, {1}), true);
  Optimizer optimizer({{"w", w}}, options);
  for (int step = 0; step < 3; ++step) {
    set_grad(w, 0.0);
    optimizer.step();
  }
  EXPECT_NEAR(w.data().to_vector<double>()[0], 2.0 * 0.95 * 0.95 * 0.95, 1e-15);
}

TEST(FurtherOptimizers, DecoupledDecayShrinksTheParameter) {
  expect_shrinks<optim::NAdam>(
      optim::NAdamOptions{.lr = 0.5, .weight_decay = 0.1, .decoupled_weight_decay = true});
  expect_shrinks<optim::RAdam>(
      optim::RAdamOptions{.lr = 0.5, .weight_decay = 0.1, .decoupled_weight_decay = true});
  expect_shrinks<optim::Lion>(optim::LionOptions{.lr = 0.5, .weight_decay = 0.1});
}

// With one number alone the other would be 0.
static_assert(std::is_constructible_v<optim::Betas, double, double>);
static_assert(!std::is_constructible_v<optim::Betas, double>);
static_assert(!std::is_default_constructible_v<optim::Betas>);

TEST(FurtherOptimizers, OptionsOutOfRangeAreRefused) {
  const auto w = test::parameter("w", {1.0F});
  EXPECT_THROW(optim::RMSprop({w}, {.alpha = 1.0}), InputError);
  EXPECT_THROW(optim::RMSprop({w}, {.eps = -1.0}), InputError);
  EXPECT_THROW(optim::Adagrad({w}, {.lr_decay = -1.0}), InputError);
  EXPECT_THROW(optim::NAdam({w}, {.betas = {0.9, 1.0}}), InputError);
  EXPECT_THROW(optim::RAdam({w}, {.betas = {-0.1, 0.9}}), InputError);
  EXPECT_THROW(optim::ASGD({w}, {.alpha = -1.0}), InputError);
  EXPECT_THROW(optim::Lion({w}, {.lr = -1.0}), InputError);
}

}  // namespace
}  // namespace lockstep
