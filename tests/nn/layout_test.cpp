// Built-in layers exchange channel blocks among themselves only: users give and get plain tensors.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <vector>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/functional/vector_norm.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {
namespace {

/// No two elements alike, of both signs.
Tensor numbers(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  const double half = static_cast<double>(values.size()) / 2 + 0.25;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (static_cast<double>(i) - half) / 64;
  return Tensor::from(values, shape).to(dtype);
}

std::vector<double> values(const Tensor& t) { return t.to(DType::f64).to_vector<double>(); }

/// Shapes that look like an image in blocks of 16 or 8 channels, and dtypes that a kernel for f32
/// would misread.
class FiveDimensions : public testing::TestWithParam<std::tuple<std::int64_t, DType>> {
 protected:
  [[nodiscard]] static Tensor input() {
    const auto [last, dtype] = GetParam();
    return numbers({2, 3, 4, 5, last}, dtype);
  }

  /// Value and gradient of relu(x) + `times` x, element by element.
  static void expect_relu(Module& module, double times) {
    const Variable x(input(), true);
    const Variable y = module(x);
    ASSERT_EQ(y.shape(), x.shape());
    auto expected = values(x.data()), slope = expected;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      slope[i] = (expected[i] > 0 ? 1 : 0) + times;
      expected[i] = std::fmax(expected[i], 0.0) + times * expected[i];
    }
    EXPECT_EQ(values(y.data()), expected);
    // A loss whose gradient is another number at every element.
    const Tensor weight = numbers(x.shape(), x.data().dtype());
    reshape(sum(mul(y, Variable(weight))), {1}).backward();
    const auto upstream = values(weight);
    for (std::size_t i = 0; i < slope.size(); ++i) slope[i] *= upstream[i];
    EXPECT_EQ(values(x.grad()), slope);
  }
};

TEST_P(FiveDimensions, GoThroughSequential) {
  Sequential model{std::make_shared<ReLU>()};
  expect_relu(model, 0);
  Sequential nested{std::make_shared<Identity>(),
                    std::make_shared<Sequential>(
                        std::initializer_list<std::shared_ptr<Module>>{std::make_shared<ReLU>()})};
  expect_relu(nested, 0);
}

TEST_P(FiveDimensions, GoThroughResidual) {
  Residual model(std::make_shared<ReLU>());
  expect_relu(model, 1);
}

TEST_P(FiveDimensions, AreRefusedByLayersOfImages) {
  const auto dtype = std::get<1>(GetParam());
  const DTypeGuard guard(dtype);
  const std::int64_t channels = 3 * std::get<0>(GetParam());
  Sequential norm{std::make_shared<BatchNorm2d>(channels)};
  EXPECT_THROW(static_cast<void>(norm(Variable(input()))), ShapeError);
  BatchNorm2d alone(channels);
  EXPECT_THROW(static_cast<void>(alone(Variable(input()))), ShapeError);
  Sequential conv{std::make_shared<Conv2d>(channels, 16, 1)};
  EXPECT_THROW(static_cast<void>(conv(Variable(input()))), ShapeError);
}

INSTANTIATE_TEST_SUITE_P(LikeBlocks, FiveDimensions,
                         testing::Combine(testing::Values(8, 16),
                                          testing::Values(DType::f32, DType::f64)));

TEST(ImagesOf16Bits, GoThroughConvolutionsOnTheHost) {
  const auto results = [](DType dtype) {
    manual_seed(3);
    Sequential model{std::make_shared<Conv2d>(3, 16, 3), std::make_shared<BatchNorm2d>(16),
                     std::make_shared<ReLU>(),
                     std::make_shared<Residual>(std::make_shared<Conv2d>(16, 16, 1)),
                     std::make_shared<Conv2d>(16, 32, 3)};
    model.to(dtype);
    const Variable x(numbers({2, 3, 9, 8}, dtype), true);
    const Variable y = model(x);
    EXPECT_EQ(y.data().dtype(), dtype);
    reshape(sum(mul(y, y)), {1}).backward();
    auto all = values(y.data());
    for (const double g : values(x.grad())) all.push_back(g);
    return all;
  };
  const auto expected = results(DType::f32);
  double largest = 0;
  for (const double e : expected) largest = std::fmax(largest, std::fabs(e));
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto found = results(dtype);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], 0.05 * largest) << name_of(dtype) << " " << i;
    }
  }
}

/// A user's module that does not know channel blocks.
struct Negate : Module {
  Variable forward(const Variable& x) override {
    shapes.push_back(x.shape());
    return mul(x, -1.0);
  }
  std::vector<Shape> shapes;
};

/// A layer of the user's own that is made from a built-in one.
template <class Base>
struct Twice : Base {
  using Base::Base;
  Variable forward(const Variable& x) override {
    shapes.push_back(x.shape());
    return mul(Base::forward(x), 2.0);
  }
  std::vector<Shape> shapes;
};

TEST(UsersModule, GetsAndGivesPlainImagesBetweenConvolutions) {
  const auto mine = std::make_shared<Negate>();
  const auto first = std::make_shared<Conv2d>(3, 16, 3), last = std::make_shared<Conv2d>(16, 32, 3);
  Sequential model{first, mine, last};
  const Variable x(numbers({2, 3, 9, 8}, DType::f32));
  const auto out = values(model(x).data());
  const auto expected = values(last->forward(mul(first->forward(x), -1.0)).data());
  EXPECT_EQ(mine->shapes, (std::vector<Shape>{{2, 16, 7, 6}}));
  ASSERT_EQ(out.size(), expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-4) << i;
}

TEST(UsersModule, DerivedFromABuiltInLayerIsCalledByItsOwnForward) {
  const auto conv = std::make_shared<Twice<Conv2d>>(3, 16, 3);
  const auto norm = std::make_shared<Twice<BatchNorm2d>>(16);
  const auto relu = std::make_shared<Twice<ReLU>>();
  const auto inner = std::make_shared<Twice<Sequential>>();
  inner->push_back(std::make_shared<Identity>());
  Sequential model{conv, norm, relu, inner};
  const auto out = values(model(Variable(numbers({2, 3, 9, 8}, DType::f32))).data());
  const std::vector<Shape> one_plain_image{{2, 16, 7, 6}};
  EXPECT_EQ(conv->shapes, (std::vector<Shape>{{2, 3, 9, 8}}));
  EXPECT_EQ(norm->shapes, one_plain_image);
  EXPECT_EQ(relu->shapes, one_plain_image);
  EXPECT_EQ(inner->shapes, one_plain_image);
}

}  // namespace
}  // namespace lockstep::nn
