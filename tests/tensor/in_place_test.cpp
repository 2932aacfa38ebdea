#include <limits>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using Floats = std::vector<float>;

TEST(TensorFrom, TakesAListInBracesInItsOwnDtype) {
  const auto t = Tensor::from({1.F, 2.5F});
  EXPECT_EQ(t.dtype(), DType::f32);
  EXPECT_EQ(t.shape(), Shape({2}));
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 2.5}));
  EXPECT_EQ(Tensor::from({1.0}).dtype(), DType::f64);
  EXPECT_EQ(Tensor::from({1, 2}).dtype(), DType::i32);
  EXPECT_EQ(Tensor::from({true}).dtype(), DType::boolean);
  EXPECT_EQ(Tensor::from({1, 2, 3, 4}, {2, 2}).shape(), Shape({2, 2}));
  EXPECT_EQ(Tensor::from(Floats{1, 2, 3}).shape(), Shape({3}));
  EXPECT_THROW(static_cast<void>(Tensor::from({1, 2, 3}, {2, 2})), ShapeError);
}

TEST(TensorReshape, FindsTheExtentThatIsLeftOpen) {
  const auto t = Tensor::zeros({4, 6});
  EXPECT_EQ(t.reshape({-1, 8}).shape(), Shape({3, 8}));
  EXPECT_EQ(t.reshape({2, -1, 3}).shape(), Shape({2, 4, 3}));
  EXPECT_EQ(t.reshape({-1}).shape(), Shape({24}));
  EXPECT_EQ(Tensor::zeros({0, 3}).reshape({-1, 3}).shape(), Shape({0, 3}));
  EXPECT_EQ(Tensor::zeros({1}).reshape({}).shape(), Shape({}));
  t.reshape({-1}).fill(2);
  EXPECT_EQ(t[3][5].item(), 2) << "shares storage";
}

TEST(TensorReshape, RefusesOtherSizesAndPrintsBothShapes) {
  const auto refusal = [](const std::initializer_list<std::int64_t>& shape) {
    return test::message_of<ShapeError>([&] {
      static_cast<void>(Tensor::zeros({4, 6}).reshape(OpenShape(shape)));
    });
  };
  EXPECT_EQ(refusal({-1, 7}),
            "cannot reshape [4, 6] (24 elements) to [-1, 7] (7 elements or a multiple of them)");
  EXPECT_EQ(refusal({5, 5}), "cannot reshape [4, 6] (24 elements) to [5, 5] (25 elements)");
  EXPECT_EQ(refusal({-1, 0}),
            "cannot reshape [4, 6] (24 elements) to [-1, 0] (0 elements for any value of -1)");
  EXPECT_NE(refusal({-1, -1}).find("only one extent"), std::string::npos);
  EXPECT_NE(refusal({-2, 12}).find("negative extent"), std::string::npos);
  EXPECT_NE(refusal({1, 1, 1, 1, 1, 1, 1, 1, -1}).find("at most 8 dimensions"), std::string::npos);
}

TEST(TensorInPlace, ReadsAnOperandInItsOwnMemoryBeforeItIsWritten) {
  const auto t = Tensor::from({1.F, 2.F, 3.F, 4.F, 5.F, 6.F}, {3, 2});
  t -= t[0];
  EXPECT_EQ(t.to_vector<float>(), (Floats{0, 0, 2, 2, 4, 4}));
  t.slice(1, 3) += t.slice(0, 2);
  EXPECT_EQ(t.to_vector<float>(), (Floats{0, 0, 2, 2, 6, 6}));
  t += t;
  EXPECT_EQ(t.to_vector<float>(), (Floats{0, 0, 4, 4, 12, 12}));
}

TEST(TensorInPlace, WholeNumbersCountModuloTheirRangeAndRefuseInfinity) {
  const auto bytes = Tensor::full({1}, 3, DType::u8);
  bytes += -4;
  EXPECT_EQ(bytes.item(), 255);
  bytes *= 300;
  EXPECT_EQ(bytes.item(), 255 * 300 % 256);
  const auto longs = Tensor::full({1}, 1, DType::i64);
  EXPECT_THROW(longs += std::numeric_limits<double>::infinity(), ShapeError);
}

TEST(TensorRow, SharesStorageAndCountsFromTheEnd) {
  const auto t = Tensor::from({1.F, 2.F, 3.F, 4.F}, {2, 2});
  EXPECT_EQ(t[0].shape(), Shape({2}));
  EXPECT_EQ(t[-1].to_vector<float>(), (Floats{3, 4}));
  EXPECT_EQ(t[1][0].item(), 3);
  t[1] += 10;
  EXPECT_EQ(t.to_vector<float>(), (Floats{1, 2, 13, 14}));
  EXPECT_THROW(static_cast<void>(t[2]), ShapeError);
  EXPECT_THROW(static_cast<void>(t[-3]), ShapeError);
  EXPECT_THROW(static_cast<void>(t[0][0][0]), ShapeError);
  EXPECT_FALSE((std::is_assignable_v<Tensor, Tensor>)) << "t[i] = x would change nothing";
}

TEST(TensorInPlace, NumbersAreSeenByEveryHandle) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const auto t = Tensor::full({3}, 5, dtype), same = t;
    t += 3;
    t -= 2;
    t *= 4;
    t /= 8;
    EXPECT_EQ(same[2].item(), 3) << name_of(dtype);
  }
  // A quotient, not a product with the rounded reciprocal.
  const auto t = Tensor::full({1}, 41);
  t /= 41;
  EXPECT_EQ(t.item(), 1.0);
}

TEST(TensorInPlace, WholeNumbersStayWhole) {
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    const auto t = Tensor::full({2}, 5, dtype);
    t += 3;
    t -= 2;
    t *= 4;
    EXPECT_EQ(t[1].item(), 24);
    EXPECT_THROW(t += 0.5, ShapeError);
    EXPECT_THROW(t /= 2, ShapeError);
    EXPECT_EQ(t[1].item(), 24);
  }
  EXPECT_THROW(Tensor::zeros({1}, DType::boolean) += 1, ShapeError);
}

TEST(TensorInPlace, OperandsAreBroadcastToItsShape) {
  const auto t = Tensor::from({1.F, 2.F, 3.F, 4.F}, {2, 2});
  t += Tensor::from({10.F, 20.F});
  t *= Tensor::from({2.F, 1.F}, {2, 1});
  EXPECT_EQ(t.to_vector<float>(), (Floats{22, 44, 13, 24}));
  t -= t;
  EXPECT_EQ(t.to_vector<float>(), Floats(4, 0));
  const auto wide = Tensor::zeros({3, 2, 2}), other = Tensor::zeros({2, 2}, DType::f64);
  EXPECT_THROW(t += wide, ShapeError);
  EXPECT_THROW(t += other, ShapeError);
  EXPECT_THROW(t += Tensor(), ShapeError);
  EXPECT_THROW(Tensor() += t, ShapeError);
}

TEST(Tensor, OverNoStorageIsRefused) {
  EXPECT_THROW(static_cast<void>(Tensor::over({}, 0, {1}, DType::f32)), Error);
}

}  // namespace
}  // namespace lockstep
