// What the windows of convolutions and pools mean, given by one number or by a list.
#include <gtest/gtest.h>

#include <concepts>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

#include "doubles_of.hpp"
#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

/// 0, 1, 2 ... in this shape.
Variable count_up(const Shape& shape) {
  std::vector<double> elements(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<double>(i);
  return Variable(Tensor::from(elements, shape));
}
using Doubles = std::vector<double>;

TEST(Pool, StrideIsTheKernelUnlessGiven) {
  const Variable line = count_up({1, 1, 7}), image = count_up({1, 1, 5, 5}),
                 volume = count_up({1, 1, 4, 4, 4});
  EXPECT_EQ(doubles_of(max_pool1d(line, {.kernel = 3})), (Doubles{2, 5}));
  EXPECT_EQ(doubles_of(max_pool1d(line, {.kernel = 3, .stride = 2})), (Doubles{2, 4, 6}));
  EXPECT_EQ(doubles_of(avg_pool1d(line, {.kernel = 3})), (Doubles{1, 4}));
  EXPECT_EQ(doubles_of(avg_pool1d(line, {.kernel = 3, .stride = 2})), (Doubles{1, 3, 5}));

  EXPECT_EQ(doubles_of(max_pool2d(image, {.kernel = 3})), Doubles{12});
  EXPECT_EQ(doubles_of(max_pool2d(image, {.kernel = 3, .stride = 2})), (Doubles{12, 14, 22, 24}));
  EXPECT_EQ(doubles_of(avg_pool2d(image, {.kernel = 3})), Doubles{6});
  EXPECT_EQ(doubles_of(avg_pool2d(image, {.kernel = 3, .stride = 2})), (Doubles{6, 8, 16, 18}));
  // Windows that are not square, for which there are other kernels.
  EXPECT_EQ(doubles_of(max_pool2d(image, {.kernel = {3, 2}})), (Doubles{11, 13}));
  EXPECT_EQ(doubles_of(max_pool2d(image, {.kernel = {3, 2}, .stride = {1, 3}})),
            (Doubles{11, 14, 16, 19, 21, 24}));
  EXPECT_EQ(doubles_of(avg_pool2d(image, {.kernel = {2, 3}})), (Doubles{3.5, 13.5}));
  EXPECT_EQ(doubles_of(avg_pool2d(image, {.kernel = {2, 3}, .stride = 2})),
            (Doubles{3.5, 5.5, 13.5, 15.5}));

  EXPECT_EQ(max_pool3d(volume, {.kernel = 3}).shape(), (Shape{1, 1, 1, 1, 1}));
  EXPECT_EQ(doubles_of(max_pool3d(volume, {.kernel = 3, .stride = 1})),
            (Doubles{42, 43, 46, 47, 58, 59, 62, 63}));
  EXPECT_EQ(doubles_of(avg_pool3d(volume, {.kernel = 3})), Doubles{21});
  EXPECT_EQ(doubles_of(avg_pool3d(volume, {.kernel = 3, .stride = 1})),
            (Doubles{21, 22, 25, 26, 37, 38, 41, 42}));
}

TEST(Pool, OneNumberIsKernelAndStrideOfAllExtents) {
  EXPECT_EQ(doubles_of(max_pool1d(count_up({1, 1, 5}), 2)), (Doubles{1, 3}));
  EXPECT_EQ(doubles_of(avg_pool1d(count_up({1, 1, 5}), 2)), (Doubles{0.5, 2.5}));
  EXPECT_EQ(doubles_of(max_pool2d(count_up({1, 1, 5, 5}), 2)), (Doubles{6, 8, 16, 18}));
  EXPECT_EQ(doubles_of(avg_pool2d(count_up({1, 1, 5, 5}), 2)), (Doubles{3, 5, 13, 15}));
  EXPECT_EQ(doubles_of(max_pool3d(count_up({1, 1, 2, 2, 4}), 2)), (Doubles{13, 15}));
  EXPECT_EQ(doubles_of(avg_pool3d(count_up({1, 1, 2, 2, 4}), 2)), (Doubles{6.5, 8.5}));
  EXPECT_EQ(doubles_of(max_pool<2>(count_up({1, 1, 2, 4}), 2)), (Doubles{5, 7}));
  EXPECT_EQ(doubles_of(avg_pool<2>(count_up({1, 1, 2, 4}), 2)), (Doubles{2.5, 4.5}));
  EXPECT_EQ(adaptive_max_pool2d(count_up({1, 1, 5, 7}), 3).shape(), (Shape{1, 1, 3, 3}));
  EXPECT_EQ(adaptive_avg_pool3d(count_up({1, 1, 5, 7, 3}), 2).shape(), (Shape{1, 1, 2, 2, 2}));
}

TEST(Pool, NumberFillsAllExtentsOfEveryOption) {
  const Variable image = count_up({1, 1, 28, 28});
  EXPECT_EQ(max_pool<2>(image, {.kernel = {3, 3}, .stride = 1}).shape(), (Shape{1, 1, 26, 26}));
  EXPECT_EQ(max_pool2d(image, {.kernel = 3, .stride = 1, .padding = 1}).shape(), image.shape());
  EXPECT_EQ(avg_pool2d(image, {.kernel = {3, 2}, .stride = 1, .padding = 1}).shape(),
            (Shape{1, 1, 28, 29}));
  EXPECT_EQ(avg_pool3d(count_up({1, 1, 6, 6, 6}), {.kernel = 3, .stride = 2, .padding = 1}).shape(),
            (Shape{1, 1, 3, 3, 3}));
}

TEST(Pool, StrideOfZeroIsRefused) {
  EXPECT_THROW(static_cast<void>(max_pool2d(count_up({1, 1, 4, 4}), {.kernel = 2, .stride = 0})),
               ShapeError);
  EXPECT_THROW(static_cast<void>(avg_pool1d(count_up({1, 1, 4}), {.kernel = 2, .stride = 0})),
               ShapeError);
}

TEST(Pool, CeilModeAndDivisorHoldForSquareWindowsToo) {
  const Variable image = count_up({1, 1, 5, 5});
  EXPECT_EQ(doubles_of(max_pool2d(image, {.kernel = 2, .ceil_mode = true})),
            (Doubles{6, 8, 9, 16, 18, 19, 21, 23, 24}));
  EXPECT_EQ(doubles_of(avg_pool2d(image, {.kernel = 2}, true, 1)), (Doubles{12, 20, 52, 60}));
}

// {3, 2} could be a kernel, as in PyTorch, or a kernel and a stride.
template <class X>
concept TakesTwoNumbersAlone = requires(X x) {
  max_pool2d(x, {3, 2});
};
static_assert(!TakesTwoNumbersAlone<Variable>);
template <class X>
concept TakesListOfThree = requires(X x) {
  conv2d(x, x, x, {.padding = {1, 1, 1}});
};
static_assert(!TakesListOfThree<Variable>);
template <class X>
concept TakesFraction = requires(X x) {
  conv2d(x, x, x, {.padding = 1.5});
};
static_assert(!TakesFraction<Variable>);
template <class X>
concept TakesNumber = requires(X x) {
  conv2d(x, x, x, {.padding = 1});
};
static_assert(TakesNumber<Variable>);

TEST(Conv, NumberFillsAllExtents) {
  const Variable kernel2 = count_up({1, 1, 3, 3}), kernel3 = count_up({1, 1, 3, 3, 3});
  const Variable image = count_up({1, 1, 9, 9}), volume = count_up({1, 1, 6, 6, 6});
  EXPECT_EQ(conv2d(image, kernel2, {}, {.padding = 1}).shape(), image.shape());
  EXPECT_EQ(conv2d(image, kernel2, {}, {.stride = 2}).shape(), (Shape{1, 1, 4, 4}));
  EXPECT_EQ(conv2d(image, kernel2, {}, {.dilation = 2}).shape(), (Shape{1, 1, 5, 5}));
  EXPECT_EQ(conv3d(volume, kernel3, {}, {.padding = 1}).shape(), volume.shape());
  EXPECT_EQ(conv3d(volume, kernel3, {}, {.stride = 2, .dilation = 2}).shape(),
            (Shape{1, 1, 1, 1, 1}));
  EXPECT_EQ(conv_transpose2d(image, kernel2, {}, {.stride = 2, .output_padding = 1}).shape(),
            (Shape{1, 1, 20, 20}));
  EXPECT_EQ(conv_transpose3d(volume, kernel3, {}, {.stride = 2, .padding = 1}).shape(),
            (Shape{1, 1, 11, 11, 11}));
}

TEST(Pool, OfAWindowThatReachesBeyondASmallImageIsTakenWithCeilMode) {
  const Variable x(Tensor::full({1, 1, 1, 3}, 2.0, DType::f64));
  for (const Variable& y : {max_pool2d(x, {.kernel = 2, .ceil_mode = true}),
                            avg_pool2d(x, {.kernel = 2, .ceil_mode = true})}) {
    EXPECT_EQ(y.shape(), Shape({1, 1, 1, 2}));
    EXPECT_EQ(doubles_of(y), (std::vector<double>{2, 2}));
  }
  EXPECT_THROW(static_cast<void>(max_pool2d(x, {.kernel = 2})), ShapeError);
  EXPECT_THROW(static_cast<void>(max_pool2d(x, {.kernel = 4, .stride = 2, .ceil_mode = true})),
               ShapeError);
}

}  // namespace
}  // namespace lockstep::test
