// Losses: what golden data and central differences do not show.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

Tensor labels(const std::vector<std::int64_t>& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

/// The probability of all paths of `frames` labels that collapse to `wanted`, one by one.
double by_paths(const std::vector<std::vector<double>>& p,
                const std::vector<std::int64_t>& wanted) {
  const std::size_t classes = p[0].size();
  double total = 0.0;
  std::vector<std::size_t> path(p.size(), 0);
  for (;;) {
    std::vector<std::int64_t> collapsed;
    double probability = 1.0;
    for (std::size_t t = 0; t < path.size(); ++t) {
      probability *= p[t][path[t]];
      if (path[t] != 0 && (t == 0 || path[t] != path[t - 1])) {
        collapsed.push_back(static_cast<std::int64_t>(path[t]));
      }
    }
    if (collapsed == wanted) total += probability;
    std::size_t t = 0;
    while (t < path.size() && ++path[t] == classes) path[t++] = 0;
    if (t == path.size()) return total;
  }
}

TEST(CtcLoss, IsTheSumOverAllPaths) {
  const Tensor x = random_tensor({5, 1, 3}, 7);
  const Variable log_probs = log_softmax(Variable(x), 2);
  const auto values = log_probs.data().to_vector<double>();
  std::vector<std::vector<double>> p(5, std::vector<double>(3));
  for (std::size_t i = 0; i < 15; ++i) p[i / 3][i % 3] = std::exp(values[i]);
  for (const std::vector<std::int64_t>& wanted :
       {std::vector<std::int64_t>{}, {1}, {2, 1}, {1, 1}, {1, 2, 1}, {2, 2, 2}}) {
    const auto length = static_cast<std::int64_t>(wanted.size());
    const double loss =
        ctc_loss(log_probs, labels(wanted), labels({5}), labels({length}), 0, Reduction::sum)
            .data()
            .item();
    EXPECT_NEAR(loss, -std::log(by_paths(p, wanted)), 1e-12) << length;
  }
}

TEST(CtcLoss, IsInfiniteWithoutGradientWhereFramesAreTooFew) {
  const Variable x(random_tensor({2, 1, 3}, 7), true);
  const auto loss = [&](bool zero) {
    return ctc_loss(log_softmax(x, 2), labels({1, 1}), labels({2}), labels({2}), 0, Reduction::mean,
                    zero);
  };
  EXPECT_EQ(loss(false).data().item(), std::numeric_limits<double>::infinity());
  const Variable zero = loss(true);
  EXPECT_EQ(zero.data().item(), 0.0);
  zero.backward();
  for (const double g : x.grad().to_vector<double>()) EXPECT_EQ(g, 0.0);
}

TEST(Losses, RefuseWhatDoesNotFit) {
  const auto expect = [](const std::function<Variable()>& f, const char* part) {
    try {
      static_cast<void>(f());
      ADD_FAILURE() << "nothing was refused: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  const Variable x(Tensor::zeros({2, 3})), frames(Tensor::zeros({4, 2, 3}));
  const Tensor other = Tensor::zeros({2, 4});
  expect([&] { return l1_loss(x, other); }, "[2, 4]");
  expect([&] { return huber_loss(x, x.data(), Reduction::mean, 0.0); }, "delta");
  expect([&] { return smooth_l1_loss(x, x.data(), Reduction::mean, -1.0); }, "beta");
  expect([&] { return gaussian_nll_loss(x, x.data(), Variable(other)); }, "[2, 4]");
  expect([&] { return gaussian_nll_loss(x, x.data(), x, false, 0.0); }, "eps");
  const Variable negative(Tensor::full(x.shape(), -1e-30, x.data().dtype()));
  expect([&] { return gaussian_nll_loss(x, x.data(), negative); },
         "variances must be at least 0, and element 0 is -");
  expect([&] { return sigmoid_focal_loss(x, x.data(), 0.5, -1.0); }, "gamma");
  expect([&] { return cosine_embedding_loss(x, x, labels({1})); }, "one target for each row");
  expect([&] { return pairwise_distance(x, x, 0.0); }, "p must be above 0");
  const auto ctc = [&](const std::vector<std::int64_t>& targets, std::int64_t lengths,
                       std::int64_t blank) {
    return ctc_loss(frames, labels(targets), labels({4, 4}), labels({lengths, 1}), blank);
  };
  expect([&] { return ctc({1, 2, 3}, 1, 3); }, "blank = 3");
  expect([&] { return ctc({1, 3}, 1, 0); }, "label 3");
  expect([&] { return ctc({1, 0}, 1, 0); }, "label 0");
  expect([&] { return ctc({1}, 2, 0); }, "target length 2");
  expect([&] { return ctc({1}, 1, 0); }, "up to sample 1 add up to 2");
  expect([&] { return ctc_loss(x, labels({1}), labels({4}), labels({1})); }, "[T, N, C]");
  std::vector<std::int64_t> many(300, 0);  // more than are looked at together
  many.back() = 7;
  const Variable rows(Tensor::zeros({300, 2})), weight(Tensor::zeros({3, 2}));
  expect([&] { return linear_cross_entropy(rows, weight, labels(many)); }, "in row 299 ");
}

TEST(CrossEntropy, HasNoGradientWhereNoRowCounts) {
  const Variable x(random_tensor({2, 3}, 4), true);
  const LossOptions options{.ignore_index = 1, .label_smoothing = 0.1};
  const Variable loss = cross_entropy(x, labels({1, 1}), options);
  for (const bool create_graph : {false, true}) {
    const Variable gradient = grad(loss, x, {.create_graph = create_graph, .retain_graph = true});
    EXPECT_EQ(gradient.data().to_vector<double>(), std::vector<double>(6, 0.0)) << create_graph;
  }
}

TEST(Losses, OfNoElementsAreZeroOrNaN) {
  const Variable x(Tensor::zeros({0, 3}), true);
  EXPECT_EQ(l1_loss(x, x.data(), Reduction::sum).data().item(), 0.0);
  EXPECT_TRUE(std::isnan(huber_loss(x, x.data()).data().item()));
  EXPECT_EQ(smooth_l1_loss(x, x.data(), Reduction::none).shape(), (Shape{0, 3}));
}

TEST(PoissonNllLoss, InFullHasStirlingsApproximationAboveOne) {
  const Variable x(Tensor::from(std::vector<double>{0.5, 0.5}, {2}));
  const Tensor target = Tensor::from(std::vector<double>{4.0, 1.0}, {2});
  const auto loss = poisson_nll_loss(x, target, true, true, 1e-8, Reduction::none).data();
  const double stirling = 4.0 * std::log(4.0) - 4.0 + 0.5 * std::log(2.0 * std::acos(-1.0) * 4.0);
  EXPECT_NEAR(loss.to_vector<double>()[0], std::exp(0.5) - 2.0 + stirling, 1e-14);
  EXPECT_NEAR(loss.to_vector<double>()[1], std::exp(0.5) - 0.5, 1e-14);
}

TEST(SmoothL1Loss, WithABetaOfZeroIsL1) {
  const Tensor target = random_tensor({31}, 2);
  const Variable x(random_tensor({31}, 1), true), same(x.data().clone(), true);
  const Variable a = smooth_l1_loss(x, target, Reduction::sum, 0.0),
                 b = l1_loss(same, target, Reduction::sum);
  EXPECT_EQ(a.data().item(), b.data().item());
  a.backward();
  b.backward();
  EXPECT_EQ(x.grad().to_vector<double>(), same.grad().to_vector<double>());
}

// Equation 5 of arXiv:1708.02002.
TEST(FocalLoss, EqualsThePapersFormula) {
  const Variable x(Tensor::from(std::vector<double>{-2.0, 0.5, 3.0, -0.1}, {4}));
  const Tensor target = Tensor::from(std::vector<double>{1, 0, 1, 0}, {4});
  const auto loss = sigmoid_focal_loss(x, target).data().to_vector<double>();
  for (std::size_t i = 0; i < 4; ++i) {
    const double z = x.data().to_vector<double>()[i], t = i % 2 == 0 ? 1.0 : 0.0;
    const double p = 1.0 / (1.0 + std::exp(-z)), of_target = t == 1.0 ? p : 1.0 - p;
    const double alpha = t == 1.0 ? 0.25 : 0.75;
    EXPECT_NEAR(loss[i], -alpha * (1.0 - of_target) * (1.0 - of_target) * std::log(of_target),
                1e-14);
  }
}

}  // namespace
}  // namespace lockstep::test
