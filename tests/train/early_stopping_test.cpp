#include <lockstep/train/parts/early_stopping.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/task/regression.hpp>
#include <support/message_of.hpp>

namespace lockstep::train {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// The number of these figures after which training ends; 0: never.
int over_after(EarlyStopping stopping, const std::vector<double>& figures) {
  int seen = 0;
  for (const double figure : figures) {
    stopping.see(figure);
    ++seen;
    if (stopping.is_over()) return seen;
  }
  return 0;
}

TEST(EarlyStopping, EndsOncePatienceEpochsWereNotBetterThanTheBest) {
  EXPECT_EQ(over_after({2, 0, false}, {5, 4, 4.5, 3, 3, 3.5, 1}), 6);
  EXPECT_EQ(over_after({2, 0, true}, {5, 6, 6, 7, 6, 6.5}), 6);
  EXPECT_EQ(over_after({1, 0, false}, {3, 2, 1, 0, -1}), 0);
  EXPECT_EQ(over_after({0, 0, false}, {1, 2, 3, 4}), 0) << "no patience is asked for";
}

TEST(EarlyStopping, BetterIsByMoreThanMinDeltaAndNeverNaN) {
  EXPECT_EQ(over_after({2, 0.5, false}, {5, 4.75, 4.5, 4}), 3) << "4.5 is not below 5 - 0.5";
  EXPECT_EQ(over_after({2, 0.5, false}, {5, 4.75, 4.25, 4}), 0);
  EXPECT_EQ(over_after({2, 0, true}, {nan, nan}), 2);
  EXPECT_EQ(over_after({2, 0, true}, {1, nan, 2, nan, nan}), 5);
}

TEST(EarlyStopping, GoesOnWhereItWasRestored) {
  EarlyStopping before(3, 0, false);
  for (const double figure : {2.0, 1.0, 1.5}) before.see(figure);
  EarlyStopping after(3, 0, false);
  after.restore(before.best(), before.epochs_without());
  EXPECT_EQ(over_after(after, {1.2, 1.1}), 2);
  EXPECT_EQ(over_after(after, {0.5, 1.1}), 0);
}

TEST(FiguresOfEvaluation, AreKnownByNameAndByDirection) {
  Deck deck = Deck::parse("data = {kind = \"synthetic\", synthetic_samples = 20}", "test");
  const Classification task(deck);
  EXPECT_FALSE(greater_is_better(task, "loss", "checkpoint.best"));
  EXPECT_TRUE(greater_is_better(task, "accuracy", "checkpoint.best"));
  EXPECT_EQ(test::message_of<InputError>(
                [&] { static_cast<void>(greater_is_better(task, "acuracy", "checkpoint.best")); }),
            "checkpoint.best = \"acuracy\" is not a figure of the evaluation. Choose one of: loss, "
            "accuracy.");
  Deck without = Deck::parse(
      "data = {kind = \"synthetic\", synthetic_samples = 20, test_set = false}", "test");
  const Classification unjudged(without);
  EXPECT_NE(test::message_of<InputError>([&] {
              static_cast<void>(greater_is_better(unjudged, "loss", "train.early_stop_metric"));
            }).find("neither a validation nor a test set"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep::train
