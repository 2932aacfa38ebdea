#include <lockstep/data/subset.hpp>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/data/data_options.hpp>

namespace lockstep {
namespace {

using test::input_error;
using test::says;

std::vector<float> inputs_of(const Dataset& data, const std::vector<std::int64_t>& numbers) {
  Batch batch(data, std::ssize(numbers));
  data.load(numbers, batch);
  return batch.inputs().to_vector<float>();
}

TEST(Subset, HasTheSamplesOfTheWholeUnderNumbersOfItsOwn) {
  const std::shared_ptr<const Dataset> whole = make_synthetic({.samples = 20}, Split::train);
  const Subset part(whole, {3, 7, 19, 0});
  EXPECT_EQ(part.size(), 4);
  EXPECT_EQ(part.classes(), whole->classes());
  EXPECT_EQ(part.sample_shape(), whole->sample_shape());
  EXPECT_EQ(inputs_of(part, {2, 0, 0, 3}), inputs_of(*whole, {19, 3, 3, 0}));
  Batch batch(part, 2);
  part.load(std::vector<std::int64_t>{1, 2}, batch);
  EXPECT_EQ(batch.indices().to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 19}))
      << "augmentation knows samples by their numbers in the whole";
  EXPECT_THROW(part.load(std::vector<std::int64_t>{4}, batch), Error);
  EXPECT_THROW(Subset(whole, {20}), InputError);
  EXPECT_THROW(Subset(whole, {}), InputError);
}

TEST(ValidationSplit, PartsAreAllSamplesOnceAndAlwaysTheSame) {
  for (const std::int64_t n : {2, 3, 10, 1001}) {
    for (const double fraction : {0.3, 0.5}) {
      const auto [train, validation] = split_for_validation(n, fraction);
      EXPECT_EQ(std::ssize(validation), std::llround(fraction * static_cast<double>(n)));
      EXPECT_TRUE(std::ranges::is_sorted(train) && std::ranges::is_sorted(validation));
      std::vector<std::int64_t> both = train, all(static_cast<std::size_t>(n));
      both.insert(both.end(), validation.begin(), validation.end());
      std::ranges::sort(both);
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(both, all);
      EXPECT_EQ(split_for_validation(n, fraction).validation, validation);
    }
  }
}

TEST(ValidationSplit, IsSpreadOverTheWholeSet) {
  const auto validation = split_for_validation(10000, 0.2).validation;
  for (std::int64_t tenth = 0; tenth < 10; ++tenth) {
    const auto here = std::ranges::count_if(
        validation, [&](std::int64_t sample) { return sample / 1000 == tenth; });
    EXPECT_NEAR(static_cast<double>(here), 200, 60) << "five standard deviations";
  }
}

TEST(ValidationSplit, LeavesNeitherPartEmpty) {
  EXPECT_TRUE(says(input_error([] { static_cast<void>(split_for_validation(10, 0.01)); }),
                   "leaves 0 to validate and 10 to train on"));
  EXPECT_TRUE(says(input_error([] { static_cast<void>(split_for_validation(10, 0.99)); }),
                   "leaves 10 to validate and 0 to train on"));
}

TEST(ValidationSplit, DataSetsHoldSamplesBackAndMayHaveNoTestSet) {
  DataOptions options;
  options.kind = SyntheticOptions{.samples = 50, .test_samples = 7};
  const auto without = make_datasets(options);
  EXPECT_EQ(without.validation, nullptr);
  options.validation_fraction = 0.2;
  const auto with = make_datasets(options);
  EXPECT_EQ(with.train->size(), 40);
  ASSERT_NE(with.validation, nullptr);
  EXPECT_EQ(with.validation->size(), 10);
  EXPECT_EQ(with.test->size(), 7);
  const auto split = split_for_validation(50, 0.2);
  EXPECT_EQ(inputs_of(*with.validation, {0, 9}),
            inputs_of(*without.train, {split.validation[0], split.validation[9]}));
  EXPECT_EQ(inputs_of(*with.train, {39}), inputs_of(*without.train, {split.train[39]}));
  options.test_set = false;
  EXPECT_EQ(make_datasets(options).test, nullptr);
}

}  // namespace
}  // namespace lockstep
