#include <lockstep/data/tensor_dataset.hpp>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>

#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

using test::input_error;

TensorDataset three_images(std::vector<std::uint8_t> labels = {2, 0, 1}) {
  const auto n = std::ssize(labels);
  return {Tensor::from(test::counting(3 * 2 * 2), {3, 2, 2}),
          Tensor::from(labels, {n}),
          3,
          {.mean = {0.0}, .std = {1.0}},
          "three images"};
}

TEST(TensorDataset, LoadsTheAskedSamplesInOrder) {
  const auto data = three_images();
  Batch batch(data, 5);
  data.load(std::vector<std::int64_t>{2, 0}, batch);
  EXPECT_EQ(batch.size(), 2);
  EXPECT_EQ(batch.inputs().shape(), Shape({2, 1, 2, 2}));
  EXPECT_EQ(batch.targets().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(batch.indices().to_vector<std::int64_t>(), (std::vector<std::int64_t>{2, 0}));
  EXPECT_EQ(batch.inputs().to_vector<float>()[1], 9.0F / 255.0F);
}

// 2^24 + 1 is the first integer that f32 cannot represent.
TEST(TensorDataset, IntegersArriveAsTheyAre) {
  const std::vector<std::int64_t> tokens{16777217, -3, 5, std::int64_t{1} << 40, 9, 2};
  const std::vector<std::int64_t> classes{0, 1, 1};
  const TensorDataset pairs(Tensor::from(tokens, {3, 2}), Tensor::from(classes, {3}), 2, "pairs");
  EXPECT_EQ(pairs.input_dtype(), DType::i64);
  EXPECT_EQ(pairs.sample_shape(), Shape({2}));
  Batch batch(pairs, 3);
  pairs.load(std::vector<std::int64_t>{1, 0}, batch);
  const std::vector<std::int64_t> expected{5, std::int64_t{1} << 40, 16777217, -3};
  EXPECT_EQ(batch.inputs().to_vector<std::int64_t>(), expected);
  EXPECT_EQ(batch.targets().to_vector<std::int64_t>(), (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(batch.to(DType::f64).inputs().to_vector<std::int64_t>(), expected);

  const TensorDataset single(Tensor::from(tokens, {6}), Tensor::from(tokens, {6}), 0, "single");
  EXPECT_EQ(single.sample_shape(), Shape({}));
  Batch one(single, 1);
  single.load(std::vector<std::int64_t>{0}, one);
  EXPECT_EQ(one.inputs().shape(), Shape({1}));
  EXPECT_EQ(one.inputs().to_vector<std::int64_t>()[0], 16777217);
}

TEST(TensorDataset, NumbersArriveAsTheyAreUnlessANormalisationIsGiven) {
  const std::vector<float> numbers{0, -1.5F, 2, 1e30F};
  const Tensor x = Tensor::from(numbers, {2, 2});
  const Tensor y = Tensor::from(std::vector<std::int64_t>{0, 1}, {2});
  const std::vector<std::int64_t> both{0, 1};
  const auto inputs = [&](const TensorDataset& data) {
    Batch batch(data, 2);
    data.load(both, batch);
    return batch.inputs().to_vector<float>();
  };
  EXPECT_EQ(inputs(TensorDataset(x, y, 2, "mine")), numbers);
  EXPECT_EQ(inputs(TensorDataset(x, y, 2, {}, "mine")), numbers);
  const Tensor bytes = Tensor::from(std::vector<std::uint8_t>{0, 51, 255, 102}, {2, 2});
  EXPECT_EQ(inputs(TensorDataset(bytes, y, 2, "mine")), (std::vector<float>{0, 0.2F, 1, 0.4F}));
}

TEST(TensorDataset, IntegersAreNotNormalisedAndOtherTypesAreRefused) {
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{0, 1}, {2});
  EXPECT_NE(input_error([&] {
              return TensorDataset(targets, targets, 2, Normalisation{}, "ages");
            }).find("ages: features i64[2] on host cannot be normalised"),
            std::string::npos);
  EXPECT_NE(input_error([&] {
              return TensorDataset(Tensor::full({2}, 1.0, DType::f64), targets, 2, "ages");
            }).find("ages: features f64[2] on host are neither f32 nor u8"),
            std::string::npos);
}

TEST(TensorDataset, BatchWithoutSamplesIsLegal) {
  const auto data = three_images();
  for (const std::int64_t capacity : {0, 4}) {
    Batch batch(data, capacity);
    data.load({}, batch);
    EXPECT_EQ(batch.size(), 0);
    EXPECT_EQ(batch.inputs().shape(), Shape({0, 1, 2, 2}));
    EXPECT_EQ(batch.targets().numel(), 0);
  }
}

TEST(TensorDataset, SamplesOutsideAreRefused) {
  const auto data = three_images();
  Batch batch(data, 2);
  EXPECT_THROW(data.load(std::vector<std::int64_t>{3}, batch), Error);
  EXPECT_THROW(data.load(std::vector<std::int64_t>{-1}, batch), Error);
  EXPECT_THROW(data.load(std::vector<std::int64_t>{0, 1, 2}, batch), ShapeError);
}

TEST(TensorDataset, CountsOfImagesAndLabelsMustAgree) {
  EXPECT_NE(input_error([] {
              three_images({0, 1});
            }).find("three images: 3 samples but 2 labels"),
            std::string::npos);
}

TEST(TensorDataset, LabelBeyondTheClassesIsRefused) {
  EXPECT_NE(input_error([] {
              three_images({0, 1, 3});
            }).find("label 3 of sample 2 is not in [0, 3)"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
