#include <lockstep/data/batches/augment.hpp>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/tensor/kernels/data/augment.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t channels = 2, height = 5, width = 4;
constexpr float black = -7.0F;

/// Images with distinct pixels: 1000 n + 100 c + 10 y + x.
Tensor numbered_images(std::int64_t n) {
  std::vector<float> pixels;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < height; ++y)
        for (std::int64_t x = 0; x < width; ++x)
          pixels.push_back(static_cast<float>(1000 * i + 100 * c + 10 * y + x));
  return Tensor::from(pixels, {n, channels, height, width});
}

Tensor first_indices(std::int64_t n) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i) all.push_back(i);
  return Tensor::from(all, {n});
}

/// Image `i` shifted by (down, right), black at the uncovered pixels.
std::vector<float> moved(std::int64_t i, std::int64_t down, std::int64_t right) {
  std::vector<float> pixels;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t from_y = y + down, from_x = x + right;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        pixels.push_back(inside ? static_cast<float>(1000 * i + 100 * c + 10 * from_y + from_x)
                                : black);
      }
  return pixels;
}

TEST(RandomCrop, EveryShiftIsDrawnAboutEquallyOftenAndNothingElse) {
  constexpr std::int64_t n = 5000, padding = 2, places = 2 * padding + 1;
  const Tensor images = numbered_images(n);
  random_crop(images, first_indices(n), padding, Tensor::full({channels}, black), {1234, 5});
  std::map<std::pair<std::int64_t, std::int64_t>, int> counts;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto image = images.slice(i, i + 1).to_vector<float>();
    int matches = 0;
    for (std::int64_t down = -padding; down <= padding; ++down)
      for (std::int64_t right = -padding; right <= padding; ++right)
        if (image == moved(i, down, right)) {
          ++matches;
          ++counts[{down, right}];
        }
    ASSERT_EQ(matches, 1) << "image " << i;
  }
  ASSERT_EQ(std::ssize(counts), places * places);
  for (const auto& [shift, count] : counts) {
    EXPECT_NEAR(count, n / (places * places), 70) << shift.first << ' ' << shift.second;  // 5 sigma
  }
}

TEST(RandomCrop, ShiftLargerThanTheImageLeavesBlack) {
  const Tensor images = numbered_images(200);
  random_crop(images, first_indices(200), 1000, Tensor::full({channels}, black), {1, 0});
  const auto pixels = images.to_vector<float>();
  EXPECT_GT(std::ranges::count(pixels, black), std::ssize(pixels) * 9 / 10);
}

TEST(RandomHorizontalFlip, HalfOfTheImagesAreMirrored) {
  constexpr std::int64_t n = 4000;
  const Tensor images = numbered_images(n);
  random_horizontal_flip(images, first_indices(n), {1234, 0});
  int mirrored = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto image = images.slice(i, i + 1).to_vector<float>();
    auto expected = moved(i, 0, 0);
    if (image == expected) continue;
    for (auto row = expected.begin(); row != expected.end(); row += width)
      std::reverse(row, row + width);
    ASSERT_EQ(image, expected) << "image " << i;
    ++mirrored;
  }
  EXPECT_NEAR(mirrored, n / 2, 160);  // 5 sigma
}

TEST(Augmentation, DependsOnSeedEpochAndSampleOnly) {
  const Tensor fill = Tensor::full({channels}, black);
  const auto augmented = [&](const AugmentKey& key, std::vector<std::int64_t> samples) {
    // The same picture for every sample, so differences come from the augmentation.
    const auto n = std::ssize(samples);
    std::vector<float> pixels;
    for (std::int64_t i = 0; i < n; ++i)
      for (const float p : moved(0, 0, 0)) pixels.push_back(p);
    const Tensor images = Tensor::from(pixels, {n, channels, height, width});
    const Tensor indices = Tensor::from(samples, {n});
    random_crop(images, indices, 2, fill, key);
    random_horizontal_flip(images, indices, key);
    return images.slice(n - 1, n).to_vector<float>();
  };
  const std::int64_t far = (std::int64_t{1} << 33U) + 7;
  EXPECT_EQ(augmented({1, 2}, {7}), augmented({1, 2}, {3, 4, 7}));
  std::set<std::vector<float>> seen;
  for (std::uint32_t epoch = 0; epoch < 20; ++epoch) seen.insert(augmented({1, epoch}, {7}));
  EXPECT_GT(seen.size(), 10U);
  seen.clear();
  for (std::uint64_t seed = 0; seed < 20; ++seed) seen.insert(augmented({seed << 32U, 0}, {7}));
  EXPECT_GT(seen.size(), 10U);
  EXPECT_NE(augmented({1, 2}, {7}), augmented({1, 2}, {far})) << "upper half of the number is lost";
}

TEST(Augmentation, ReachesTheBatchesOfALoaderTheSameOnAnyRank) {
  const auto data = make_synthetic({.samples = 40, .image_size = 8, .channels = 3}, Split::train);
  const auto images_of = [&](int world, std::int64_t epoch, bool augment) {
    std::map<std::int64_t, std::vector<float>> images;
    for (int rank = 0; rank < world; ++rank) {
      const AugmentOptions options{.crop_padding = augment ? 2 : 0, .flip = augment};
      Loader loader(data, std::make_unique<TrainBatches>(BatchPlan(40, 10, world), rank, 1), 2,
                    make_augmentation(options, data->sample_shape(), {black}, 99));
      loader.start_epoch(epoch);
      while (loader.has_next()) {
        const Batch& batch = loader.next();
        const auto indices = batch.indices().to_vector<std::int64_t>();
        for (std::int64_t i = 0; i < batch.size(); ++i) {
          images[indices[static_cast<std::size_t>(i)]] =
              batch.inputs().slice(i, i + 1).to_vector<float>();
        }
      }
    }
    return images;
  };
  const auto alone = images_of(1, 3, true);
  ASSERT_EQ(alone.size(), 40U);
  EXPECT_EQ(images_of(3, 3, true), alone);
  EXPECT_NE(images_of(1, 4, true), alone);
  EXPECT_NE(images_of(1, 3, false), alone);
}

TEST(Augmentation, IsForImages) {
  const auto message =
      test::input_error([] { return make_augmentation({.flip = true}, {12}, {0.0F}, 1); });
  EXPECT_TRUE(test::says(message, "not samples of shape [12]"));
  EXPECT_TRUE(make_augmentation({}, {12}, {0.0F}, 1).empty());
}

TEST(AugmentKernels, RefuseInputsThatAreNotBatchesOfImages) {
  const Tensor fill = Tensor::zeros({channels}), images = numbered_images(3);
  const Tensor three = first_indices(3);
  EXPECT_THROW(random_crop(Tensor::zeros({3, 4}), three, 1, fill, {}), ShapeError);
  EXPECT_THROW(random_crop(images, first_indices(2), 1, fill, {}), ShapeError);
  EXPECT_THROW(random_crop(images, three, 1, Tensor::zeros({3}), {}), ShapeError);
  EXPECT_THROW(random_crop(images, three, -1, fill, {}), ShapeError);
  EXPECT_THROW(random_horizontal_flip(images, first_indices(2), {}), ShapeError);
  random_crop(numbered_images(0), first_indices(0), 1, fill, {});
  random_horizontal_flip(numbered_images(0), first_indices(0), {});
}

}  // namespace
}  // namespace lockstep
