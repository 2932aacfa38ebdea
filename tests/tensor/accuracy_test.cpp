#include <lockstep/tensor/kernels/loss/accuracy.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

TEST(CountCorrect, TheFirstLargestScoreCountsAndNanIsWrong) {
  const float nan = std::nanf("");
  const Tensor scores =
      Tensor::from(std::vector<float>{1, 2, 0, 3, 3, 0, 3, 3, 0, nan, 2, 3}, {4, 3});
  const Tensor targets = Tensor::from(std::vector<std::int64_t>{1, 0, 1, 2}, {4});
  EXPECT_EQ(count_correct(scores, targets), 2);
}

TEST(CountCorrect, AmongEqualsTheFirstCountInTheTopK) {
  const float nan = std::nanf("");
  const Tensor scores =
      Tensor::from(std::vector<float>{1, 2, 0, 3, 3, 3, 0, 3, 5, 4, nan, 2}, {3, 4});
  const auto top = [&](std::int64_t first, std::int64_t second, std::int64_t third,
                       std::int64_t k) {
    return count_correct(scores, Tensor::from(std::vector<std::int64_t>{first, second, third}, {3}),
                         k);
  };
  // Rows: 1 2 0 3; 3 3 0 3; 5 4 nan 2.
  EXPECT_EQ(top(1, 1, 0, 2), 3);  // nan is ahead of 5
  EXPECT_EQ(top(0, 3, 1, 2), 0);
  EXPECT_EQ(top(0, 3, 1, 3), 3);
  EXPECT_EQ(top(2, 2, 2, 3), 0);  // nan is wrong, however many count
}

TEST(ErrorsOf, GivesSumsOfSquaresAndSizesAndTheLargest) {
  // Whole numbers: the sum is exact in any order.
  std::vector<float> y(100), t(100);
  double squares = 0, absolute = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = static_cast<float>(i % 7);
    t[i] = static_cast<float>(i % 5) - 2;
    squares += std::pow(y[i] - t[i], 2);
    absolute += std::abs(y[i] - t[i]);
  }
  const Errors errors = errors_of(Tensor::from(y, {10, 10}), Tensor::from(t, {10, 10}));
  EXPECT_EQ(errors.squares, squares);
  EXPECT_EQ(errors.absolute, absolute);
  EXPECT_EQ(errors.largest, 8);
  EXPECT_EQ(errors_of(Tensor::zeros({0, 3}), Tensor::zeros({0, 3})).squares, 0);
}

TEST(ErrorsOf, NanIsNotLost) {
  for (const std::size_t at : {0, 17, 99}) {
    std::vector<float> y(100, 1.0F);
    y[at] = std::nanf("");
    const Errors errors = errors_of(Tensor::from(y, {100}), Tensor::zeros({100}));
    EXPECT_TRUE(std::isnan(errors.squares)) << at;
    EXPECT_TRUE(std::isinf(errors.largest)) << at;
  }
}

TEST(ErrorsOf, ShapesMustBeEqual) {
  EXPECT_THROW(static_cast<void>(errors_of(Tensor::zeros({2, 3}), Tensor::zeros({3, 2}))),
               ShapeError);
}

}  // namespace
}  // namespace lockstep
