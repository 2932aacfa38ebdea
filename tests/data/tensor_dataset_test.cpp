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
