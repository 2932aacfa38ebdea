#include <lockstep/data/synthetic_dataset.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>

namespace lockstep {
namespace {

struct Samples {
  std::vector<float> inputs;
  std::vector<std::int64_t> targets;
  std::int64_t pixels = 0;
};

Samples all_of(const Dataset& data) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(data.size()));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  Batch batch(data, data.size());
  data.load(indices, batch);
  return {batch.inputs().to_vector<float>(), batch.targets().to_vector<std::int64_t>(),
          data.sample_shape().numel()};
}

// Fraction of test samples nearest to the mean training image of their class.
double nearest_mean_accuracy(const SyntheticOptions& options) {
  const Samples train = all_of(*make_synthetic(options, Split::train));
  const Samples test = all_of(*make_synthetic(options, Split::test));
  const auto classes = static_cast<std::size_t>(options.classes);
  const auto pixels = static_cast<std::size_t>(train.pixels);
  std::vector<double> mean(classes * pixels, 0.0), count(classes, 0.0);
  for (std::size_t i = 0; i < train.targets.size(); ++i) {
    const auto c = static_cast<std::size_t>(train.targets[i]);
    count[c] += 1.0;
    for (std::size_t p = 0; p < pixels; ++p) mean[c * pixels + p] += train.inputs[i * pixels + p];
  }
  std::size_t correct = 0;
  for (std::size_t i = 0; i < test.targets.size(); ++i) {
    std::size_t best = 0;
    double least = 1e300;
    for (std::size_t c = 0; c < classes; ++c) {
      if (count[c] == 0.0) continue;
      double distance = 0.0;
      for (std::size_t p = 0; p < pixels; ++p) {
        const double d = test.inputs[i * pixels + p] - mean[c * pixels + p] / count[c];
        distance += d * d;
      }
      if (distance < least) least = distance, best = c;
    }
    correct += best == static_cast<std::size_t>(test.targets[i]) ? 1U : 0U;
  }
  return static_cast<double>(correct) / static_cast<double>(test.targets.size());
}

TEST(SyntheticData, BytesAreTheSameEverywhere) {
  // A change of these bytes changes the results of every run on synthetic data.
  const Samples s =
      all_of(*make_synthetic({.samples = 16}, Split::train, {.mean = {0.0}, .std = {1.0}}));
  std::vector<std::uint8_t> bytes;
  for (const float x : s.inputs) bytes.push_back(static_cast<std::uint8_t>(x * 255.0F + 0.5F));
  for (const auto t : s.targets) bytes.push_back(static_cast<std::uint8_t>(t));
  EXPECT_EQ(to_hex(hash64(bytes.data(), bytes.size())), "f15c11920487b438");
}

TEST(SyntheticData, CanBeLearnt) {
  EXPECT_GT(nearest_mean_accuracy({.samples = 500, .test_samples = 200}), 0.95);
}

TEST(SyntheticData, NoiseAloneCannotBeLearnt) {
  EXPECT_LT(nearest_mean_accuracy({.samples = 500, .test_samples = 200, .noise = 1.0}), 0.25);
}

TEST(SyntheticData, SplitsAndSeedsDiffer) {
  const SyntheticOptions options{.samples = 64, .test_samples = 64};
  SyntheticOptions other = options;
  other.seed = 2;
  const auto train = all_of(*make_synthetic(options, Split::train)).inputs;
  EXPECT_EQ(all_of(*make_synthetic(options, Split::train)).inputs, train);
  EXPECT_NE(all_of(*make_synthetic(options, Split::test)).inputs, train);
  EXPECT_NE(all_of(*make_synthetic(other, Split::train)).inputs, train);
}

TEST(SyntheticData, ShapesAndClassesFollowTheOptions) {
  const auto data = make_synthetic({.samples = 300, .classes = 256, .image_size = 5}, Split::train);
  EXPECT_EQ(data->size(), 300);
  EXPECT_EQ(data->classes(), 256);
  EXPECT_EQ(data->sample_shape(), Shape({1, 5, 5}));
}

TEST(SyntheticData, OptionsOutOfRangeAreRefused) {
  const auto make = [](const SyntheticOptions& options) {
    return make_synthetic(options, Split::train);
  };
  EXPECT_THROW(make({.samples = 0}), InputError);
  EXPECT_THROW(make({.test_samples = 0}), InputError);
  EXPECT_THROW(make({.classes = 257}), InputError);
  EXPECT_THROW(make({.image_size = 0}), InputError);
  EXPECT_THROW(make({.noise = 1.5}), InputError);
}

}  // namespace
}  // namespace lockstep
