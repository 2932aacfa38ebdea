#include <lockstep/tensor/kernels/data/gather.hpp>

#include <gtest/gtest.h>

#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

std::vector<std::uint8_t> all_bytes() {
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  return bytes;
}

ChannelScale scale(float divisor, std::vector<float> mean, std::vector<float> std) {
  return {divisor, Tensor::from(mean, {std::ssize(mean)}), Tensor::from(std, {std::ssize(std)})};
}

TEST(GatherNormalise, EachOperationRoundsToFloat) {
  // Every byte value, in rows of 8, picked backwards and twice.
  const Tensor images = Tensor::from(all_bytes(), {32, 2, 4});
  const std::vector<std::int64_t> rows{31, 0, 17, 17};
  const Tensor out = Tensor::empty({4, 1, 2, 4});
  const float mean = 0.1307F, std = 0.3081F;
  gather_normalise(images, Tensor::from(rows, {4}), scale(255, {mean}, {std}), out);
  const auto y = out.to_vector<float>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const volatile float pixel =
        static_cast<float>(rows[i / 8] * 8 + static_cast<std::int64_t>(i % 8));
    const volatile float unit = pixel / 255.0F;
    const volatile float centred = unit - mean;
    const volatile float expected = centred / std;
    EXPECT_EQ(y[i], expected) << i;
  }
}

TEST(GatherNormalise, NoRowsIsNothing) {
  const Tensor images = Tensor::from(all_bytes(), {32, 2, 4});
  gather_normalise(images, Tensor::empty({0}, DType::i64), scale(1, {0}, {1}),
                   Tensor::empty({0, 1, 2, 4}));
}

/// Every element (x - mean[c]) / std[c], where c is the element's channel of 3.
void expect_channels(const std::vector<float>& x, const std::vector<float>& y) {
  const std::vector<float> mean{1, 2, 3}, std{2, 4, 8};
  const std::size_t width = x.size() / 6;  // 2 rows of 3 channels
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i / width % 3;
    EXPECT_EQ(y[i], (x[i] - mean[c]) / std[c]) << i;
  }
}

TEST(Normalise, EachChannelHasItsOwnMeanAndDeviation) {
  for (const std::int64_t width : {1, 2, 7, 40}) {
    std::vector<float> x;
    for (std::int64_t i = 0; i < 2 * 3 * width; ++i) x.push_back(static_cast<float>(i * i % 31));
    const Tensor t = Tensor::from(x, {2, 3, width});
    const Tensor gathered = Tensor::empty({2, 3, width});
    gather_normalise(t, Tensor::from(std::vector<std::int64_t>{0, 1}, {2}),
                     scale(1, {1, 2, 3}, {2, 4, 8}), gathered);
    expect_channels(x, gathered.to_vector<float>());
    normalise(t, scale(1, {1, 2, 3}, {2, 4, 8}));
    expect_channels(x, t.to_vector<float>());
  }
}

TEST(Normalise, ChannelsThatDoNotDivideARowAreRefused) {
  EXPECT_THROW(normalise(Tensor::zeros({2, 4}), scale(1, {1, 2, 3}, {1, 1, 1})), ShapeError);
  EXPECT_THROW(normalise(Tensor::zeros({2, 6}), scale(1, {1, 2, 3}, {1, 1})), ShapeError);
  normalise(Tensor::zeros({0, 4}), scale(1, {1}, {1}));
}

TEST(GatherRows, PicksRowsOfLabelsAndOfValues) {
  const std::vector<std::int64_t> labels{10, 20, 30}, picked{2, 0, 2};
  const Tensor indices = Tensor::from(picked, {3});
  const Tensor out = Tensor::empty({3}, DType::i64);
  gather_rows(Tensor::from(labels, {3}), indices, out);
  EXPECT_EQ(out.to_vector<std::int64_t>(), (std::vector<std::int64_t>{30, 10, 30}));
  const Tensor values = Tensor::empty({3, 2});
  gather_rows(Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}), indices, values);
  EXPECT_EQ(values.to_vector<float>(), (std::vector<float>{5, 6, 1, 2, 5, 6}));
}

TEST(Gather, ShapesThatDoNotFitAreRefused) {
  const Tensor images = Tensor::from(all_bytes(), {32, 2, 4});
  const Tensor two = Tensor::zeros({2}, DType::i64);
  EXPECT_THROW(gather_normalise(images, two, scale(1, {0}, {1}), Tensor::empty({3, 8})),
               ShapeError);
  EXPECT_THROW(gather_normalise(images, two, scale(1, {0}, {1}), Tensor::empty({2, 9})),
               ShapeError);
  EXPECT_THROW(gather_normalise(images, two, scale(1, {0}, {1}), Tensor::empty({2, 8}, DType::f64)),
               ShapeError);
  EXPECT_THROW(gather_rows(images, two, Tensor::empty({2}, DType::i64)), ShapeError);
}

}  // namespace
}  // namespace lockstep
