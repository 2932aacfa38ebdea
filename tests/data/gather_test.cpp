#include <lockstep/tensor/kernels/gather.hpp>

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

TEST(GatherNormalise, EachOperationRoundsToFloat) {
  // Every byte value, in rows of 8, picked backwards and twice.
  const Tensor images = Tensor::from(all_bytes(), {32, 2, 4});
  const std::vector<std::int64_t> rows{31, 0, 17, 17};
  const Tensor out = Tensor::empty({4, 1, 2, 4});
  const float mean = 0.1307F, std = 0.3081F;
  gather_normalise(images, Tensor::from(rows, {4}), mean, std, out);
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
  gather_normalise(images, Tensor::empty({0}, DType::i64), 0.0F, 1.0F, Tensor::empty({0, 1, 2, 4}));
}

TEST(GatherLabels, BytesBecomeI64) {
  const Tensor out = Tensor::empty({3}, DType::i64);
  gather_labels(Tensor::from(all_bytes(), {256}),
                Tensor::from(std::vector<std::int64_t>{255, 0, 128}, {3}), out);
  EXPECT_EQ(out.to_vector<std::int64_t>(), (std::vector<std::int64_t>{255, 0, 128}));
}

TEST(Gather, ShapesThatDoNotFitAreRefused) {
  const Tensor images = Tensor::from(all_bytes(), {32, 2, 4});
  const Tensor two = Tensor::zeros({2}, DType::i64);
  EXPECT_THROW(gather_normalise(images, two, 0.0F, 1.0F, Tensor::empty({3, 8})), ShapeError);
  EXPECT_THROW(gather_normalise(images, two, 0.0F, 1.0F, Tensor::empty({2, 9})), ShapeError);
  EXPECT_THROW(gather_normalise(images, two, 0.0F, 1.0F, Tensor::empty({2, 8}, DType::f64)),
               ShapeError);
  EXPECT_THROW(gather_labels(images, two, Tensor::empty({2}, DType::i64)), ShapeError);
}

}  // namespace
}  // namespace lockstep
