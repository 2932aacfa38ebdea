// What activations and norms promise beyond their formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/norm.hpp>
#include <lockstep/base/error.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

Variable input(const Shape& shape, DType dtype = DType::f32) {
  return Variable(random_tensor(shape, 31).to(dtype), true);
}

void expect_message(const std::string& message, const std::vector<std::string>& parts) {
  for (const auto& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' is not in: " << message;
  }
}

TEST(Norms, PrintTheShapesThatDoNotFit) {
  const Variable x = input({4, 6});
  for (const Variable& weight : {input({4}), input({2, 4, 6}), input({6}, DType::f64)}) {
    const std::vector<std::string> parts{describe(x.data()), describe(weight.data())};
    try {
      static_cast<void>(layer_norm(x, weight, {}));
      FAIL() << "no ShapeError";
    } catch (const ShapeError& error) {
      expect_message(error.what(), parts);
    }
    try {
      static_cast<void>(rms_norm(x, weight));
      FAIL() << "no ShapeError";
    } catch (const ShapeError& error) {
      expect_message(error.what(), parts);
    }
  }
  try {
    static_cast<void>(layer_norm(x, input({6}), input({4})));
    FAIL() << "no ShapeError";
  } catch (const ShapeError& error) {
    expect_message(error.what(), {"f32[6]", "f32[4]"});
  }
}

TEST(Norms, GiveParametersAZeroGradientForAnEmptyBatch) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Variable x(Tensor::empty({0, 3, 6}, dtype), true);
    const Variable weight = input({6}, dtype), bias = input({6}, dtype);
    for (const Variable& y : {layer_norm(x, weight, bias), rms_norm(x, weight)}) {
      for (const Variable& v : {x, weight, bias}) v.zero_grad();
      weighted_sum(y, Tensor::empty(y.shape(), dtype)).backward();
      EXPECT_EQ(x.grad().shape(), x.shape());
      EXPECT_EQ(weight.grad().to(DType::f64).to_vector<double>(), std::vector<double>(6, 0.0));
    }
  }
}

// 16 numbers around 10^4 whose spread is 1: a variance from the mean of squares would keep nothing.
TEST(LayerNorm, KeepsItsAccuracyFarFromZero) {
  const Tensor near = random_tensor({8, 97}, 5);
  std::vector<double> values = near.to_vector<double>();
  for (double& value : values) value = static_cast<double>(static_cast<float>(value + 1e4));
  const Tensor far = Tensor::from(values, near.shape());
  const Tensor ones = Tensor::full({97}, 1.0, DType::f64);
  const auto exact = layer_norm(Variable(far), Variable(ones), {}).data().to_vector<double>();
  const auto y = layer_norm(Variable(far.to(DType::f32)), Variable(ones.to(DType::f32)), {})
                     .data()
                     .to_vector<float>();
  // The mean is rounded to a float of its size: 2^-11 at 10^4, on a spread of 0.58.
  for (std::size_t i = 0; i < y.size(); ++i) ASSERT_LE(std::abs(y[i] - exact[i]), 2e-3) << i;
}

// Sums over 20,000 rows of ones and of the normalised element, in f32.
TEST(LayerNorm, SumsOverManyRowsLoseNothing) {
  constexpr std::int64_t rows = 20001;
  const Variable x(random_tensor({rows, 5}, 6).to(DType::f32), true);
  const Variable weight(Tensor::full({5}, 1.0), true), bias(Tensor::zeros({5}), true);
  weighted_sum(layer_norm(x, weight, bias), Tensor::full({rows, 5}, 0.1)).backward();
  for (const float sum : bias.grad().to_vector<float>()) {
    EXPECT_LE(std::abs(sum - 2000.1), 0.01);  // one accumulator is off by 0.34
  }
}

// Narrow and wide rows (up to 8 KiB and above) form these sums in different passes; 71 rows are
// more than a block and no multiple of what wide rows add at a time.
TEST(Norms, SumParametersGradientsOverRowsOfAnyWidth) {
  for (const std::int64_t width : {70, 2100}) {
    constexpr std::int64_t rows = 71;
    const Variable x = input({rows, width}), weight = input({width}), bias = input({width});
    const Tensor upstream = random_tensor({rows, width}, 4).to(DType::f32);
    const auto in = x.data().to_vector<float>(), g = upstream.to_vector<float>();
    for (const bool centred : {true, false}) {
      for (const Variable& v : {x, weight, bias}) v.zero_grad();
      weighted_sum(centred ? layer_norm(x, weight, bias) : rms_norm(x, weight), upstream)
          .backward();
      std::vector<double> of_weight(static_cast<std::size_t>(width)), of_bias = of_weight;
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t begin = r * of_weight.size();
        double mean = 0, square = 0;
        for (std::size_t c = 0; c < of_weight.size(); ++c) mean += in[begin + c] / width;
        if (!centred) mean = 0;
        for (std::size_t c = 0; c < of_weight.size(); ++c) {
          square += (in[begin + c] - mean) * (in[begin + c] - mean) / width;
        }
        for (std::size_t c = 0; c < of_weight.size(); ++c) {
          of_weight[c] += g[begin + c] * (in[begin + c] - mean) / std::sqrt(square + 1e-5);
          of_bias[c] += g[begin + c];
        }
      }
      const auto weights = weight.grad().to_vector<float>();
      for (std::size_t c = 0; c < weights.size(); ++c) ASSERT_NEAR(weights[c], of_weight[c], 1e-3);
      if (!centred) continue;
      const auto biases = bias.grad().to_vector<float>();
      for (std::size_t c = 0; c < biases.size(); ++c) ASSERT_NEAR(biases[c], of_bias[c], 1e-3);
    }
  }
}

TEST(Softmax, HasPyTorchsEdges) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto of = [](const std::vector<float>& row) {
    return softmax(Variable(Tensor::from(row, {static_cast<std::int64_t>(row.size())})))
        .data()
        .to_vector<float>();
  };
  EXPECT_EQ(of({-inf, 0.0F, -inf, 0.0F}), (std::vector<float>{0.0F, 0.5F, 0.0F, 0.5F}));
  EXPECT_EQ(of({300.0F, 300.0F}), (std::vector<float>{0.5F, 0.5F}));
  for (const auto& row : {std::vector<float>{-inf, -inf}, {inf, 0.0F}, {0.0F, nan, 1.0F}}) {
    for (const float y : of(row)) EXPECT_TRUE(std::isnan(y));
  }
  EXPECT_TRUE(of({}).empty());
  EXPECT_EQ(softmax(input({0, 4})).shape(), (Shape{0, 4}));
  EXPECT_THROW(static_cast<void>(softmax(input({2, 5}), 2)), ShapeError);
}

TEST(Activations, PassNaNOnAndHoldTheirLimits) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Variable x(Tensor::from(std::vector<float>{nan, inf, -0.0F, -1e30F}, {4}));
  const auto exact = gelu(x).data().to_vector<float>();
  const auto by_tanh = gelu(x, Gelu::tanh).data().to_vector<float>();
  for (const auto& y : {exact, by_tanh, silu(x).data().to_vector<float>()}) {
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], inf);
    EXPECT_EQ(y[2], 0.0F);
    EXPECT_TRUE(std::signbit(y[2]));
    EXPECT_EQ(y[3], 0.0F);
  }
  for (const auto& y : {lockstep::tanh(x), sigmoid(x)}) {
    EXPECT_TRUE(std::isnan(y.data().to_vector<float>()[0]));
  }
  EXPECT_THROW(static_cast<void>(gelu(Variable(Tensor::zeros({2}, DType::i64)))), ShapeError);
}

TEST(Activations, AreNaNAtMinusInfinityAsInPyTorch) {
  const Variable x(Tensor::full({1}, -std::numeric_limits<double>::infinity()));
  for (const Variable& y : {gelu(x), gelu(x, Gelu::tanh), silu(x)}) {
    EXPECT_TRUE(std::isnan(y.data().item()));
  }
}

TEST(Activations, HaveTheSlopesOfTheirLimitsForLargeNumbers) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double most = dtype == DType::f32 ? std::numeric_limits<float>::max()
                                            : std::numeric_limits<double>::max();
    for (const double size : {1e3, 1e13, 1e20, most}) {  // f32's x^3 is infinite from 7e12 on
      for (const auto f : {+[](const Variable& x) { return gelu(x); },
                           +[](const Variable& x) { return gelu(x, Gelu::tanh); },
                           +[](const Variable& x) { return silu(x); }}) {
        const Variable above(Tensor::full({1}, size, dtype), true);
        const Variable below(Tensor::full({1}, -size, dtype), true);
        f(above).backward();
        f(below).backward();
        EXPECT_EQ(above.grad().item(), 1.0) << size;
        EXPECT_EQ(below.grad().item(), 0.0) << size;
      }
    }
  }
}

TEST(Gradients, OfASecondBackwardAreAdded) {
  const Variable x = input({70, 19}), weight = input({19}), bias = input({19});
  const Tensor upstream = random_tensor({70, 19}, 4).to(DType::f32);
  const std::vector<std::function<Variable()>> operations{
      [&] { return gelu(x); },
      [&] { return gelu(x, Gelu::tanh); },
      [&] { return silu(x); },
      [&] { return sigmoid(x); },
      [&] { return softmax(x, 0); },
      [&] { return softmax(x, 1); },
      [&] { return log_softmax(x); },
      [&] { return lockstep::tanh(x); },
      [&] { return rms_norm(x, weight); },
      [&] { return layer_norm(x, weight, bias); }};
  for (const auto& operation : operations) {
    for (const Variable& v : {x, weight, bias}) v.zero_grad();
    weighted_sum(operation(), upstream).backward();
    const auto once = x.grad().to_vector<float>();
    const auto sums = weight.grad().defined() ? weight.grad().to_vector<float>() : once;
    weighted_sum(operation(), upstream).backward();
    const auto twice = x.grad().to_vector<float>();
    for (std::size_t i = 0; i < once.size(); ++i) ASSERT_EQ(twice[i], 2 * once[i]);
    if (!weight.grad().defined()) continue;
    const auto doubled = weight.grad().to_vector<float>();
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(doubled[i], 2 * sums[i]);
  }
}

TEST(Activations, TakeEmptyTensors) {
  const Variable x(Tensor::empty({0, 3}), true);
  for (const Variable& y : {gelu(x), silu(x), sigmoid(x), lockstep::tanh(x), softmax(x)}) {
    x.zero_grad();
    weighted_sum(y, Tensor::empty({0, 3})).backward();
    EXPECT_EQ(x.grad().shape(), x.shape());
  }
}

}  // namespace
}  // namespace lockstep::test
