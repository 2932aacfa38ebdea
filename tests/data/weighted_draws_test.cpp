#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <lockstep/base/error.hpp>
#include <lockstep/data/batches/weighted_draws.hpp>
#include <lockstep/data/data_options.hpp>

namespace lockstep {
namespace {

std::vector<std::int64_t> copy_of(const EpochOrder& order) {
  return {order.indices().begin(), order.indices().end()};
}

TEST(WeightedDraws, ComeAsOftenAsTheirWeightsSay) {
  const std::vector<double> weights{1, 0, 3, 6, 0};
  const std::int64_t draws = 100'000;
  const auto counts = count_labels(WeightedDraws(weights, draws, 7).indices(), 5);
  EXPECT_EQ(counts[1], 0);
  EXPECT_EQ(counts[4], 0) << "the last one has no weight";
  for (const std::size_t i : {0U, 2U, 3U}) {
    const double p = weights[i] / 10, n = static_cast<double>(draws);
    EXPECT_NEAR(static_cast<double>(counts[i]), n * p, 5 * std::sqrt(n * p * (1 - p))) << i;
  }
}

TEST(WeightedDraws, AreAFunctionOfSeedAndEpoch) {
  const std::vector<double> weights(50, 0.1);
  WeightedDraws order(weights, 50, 1), same(weights, 50, 1);
  const auto first = copy_of(order);
  EXPECT_EQ(copy_of(same), first);
  EXPECT_NE(copy_of(WeightedDraws(weights, 50, 2)), first);
  order.set_epoch(3);
  EXPECT_NE(copy_of(order), first);
  same.set_epoch(1);
  same.set_epoch(3);
  EXPECT_EQ(copy_of(same), copy_of(order));
  order.set_epoch(0);
  EXPECT_EQ(copy_of(order), first);
}

TEST(WeightedDraws, RefusesWeightsThatAreNone) {
  const auto make = [](std::vector<double> weights) {
    static_cast<void>(WeightedDraws(weights, 1, 0));
  };
  EXPECT_THROW(make({}), InputError);
  EXPECT_THROW(make({0, 0}), InputError);
  EXPECT_THROW(make({1, -1}), InputError);
  EXPECT_THROW(make({1, std::nan("")}), InputError);
  EXPECT_THROW(make({1, std::numeric_limits<double>::infinity()}), InputError);
}

TEST(WeightedDraws, OfBalancedClassesComeEquallyOften) {
  std::vector<std::int64_t> labels(1000, 0);
  for (std::size_t i = 0; i < 10; ++i) labels[100 * i] = 2;
  const auto weights = weights_that_balance(labels, 3);
  const WeightedDraws order(weights, 20'000, 5);
  std::vector<std::int64_t> drawn;
  for (const std::int64_t i : order.indices()) drawn.push_back(labels[static_cast<std::size_t>(i)]);
  const auto counts = count_labels(drawn, 3);
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(static_cast<double>(counts[2]), 10'000, 400);
}

TEST(SampleWeights, ComeWithTheTrainingSetThatRemainsAfterValidation) {
  DataOptions options;
  options.kind =
      SyntheticOptions{.samples = 200, .test_samples = 20, .classes = 4, .image_size = 4};
  options.balance_classes = true;
  options.validation_fraction = 0.25;
  const Datasets sets = make_datasets(options);
  ASSERT_EQ(sets.sample_weights.size(), 150U);
  const auto labels = sets.train->labels();
  const auto counts = count_labels(labels, 4);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto count = static_cast<double>(counts[static_cast<std::size_t>(labels[i])]);
    EXPECT_DOUBLE_EQ(sets.sample_weights[i] * count, 1.0);
  }
  EXPECT_EQ(make_order(sets, 1, {})->indices().size(), 150U);
}

TEST(SampleWeights, AreRefusedWhereTheyCannotBe) {
  DataOptions options;
  options.kind = CsvOptions{{.sample_weights = "w"}};
  options.balance_classes = true;
  EXPECT_THROW(static_cast<void>(make_datasets(options)), InputError);
  options.kind = SyntheticOptions();
  options.shuffle.window = 100;
  EXPECT_THROW(static_cast<void>(make_datasets(options)), InputError);
}

}  // namespace
}  // namespace lockstep
