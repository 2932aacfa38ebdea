// Operations on images in channel blocks, f32, against the plain ones in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/layout_guard.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

using Inputs = std::vector<Variable>;

/// ||a - b|| / ||b||.
double relative_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to(DType::f64).to_vector<double>(), y = b.to(DType::f64).to_vector<double>();
  if (x.size() != y.size()) return INFINITY;
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

/// Output and every input's gradient of `f` in f32 and of `reference` in f64. Gradients are added
/// to one that is there already, as for an input that is used twice.
void expect_agreement(const Function& f, const Function& reference,
                      const std::vector<Shape>& shapes, double bound) {
  const auto run = [&](const Function& function, DType dtype) {
    Inputs inputs;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inputs.emplace_back(random_tensor(shapes[i], 20 + i).to(DType::f32).to(dtype), true);
    }
    std::vector<Tensor> results;
    for (int pass = 0; pass < 2; ++pass) {
      const Variable y = function(inputs);
      weighted_sum(y, random_tensor(y.shape(), 90).to(DType::f32).to(dtype)).backward();
      results = {y.data()};
    }
    for (const Variable& input : inputs) results.push_back(input.grad());
    return results;
  };
  const auto actual = run(f, DType::f32), expected = run(reference, DType::f64);
  for (std::size_t i = 0; i < actual.size(); ++i) {
    EXPECT_LE(relative_difference(actual[i], expected[i]), bound)
        << (i == 0 ? "output" : "gradient of input ") << i;
  }
}

class ChannelBlocks : public testing::Test {
 protected:
  void SetUp() override {
    if (channel_block() == 0) GTEST_SKIP() << "oneDNN has no such layout for this processor";
  }
};

TEST_F(ChannelBlocks, ConversionThereAndBackKeepsTheImage) {
  const std::int64_t b = channel_block();
  const Tensor x = random_tensor({2, 3 * b, 5, 4}, 1).to(DType::f32);
  const Variable blocked = to_channel_blocks(Variable(x));
  EXPECT_EQ(blocked.shape(), (Shape{2, 3, 5, 4, b}));
  EXPECT_EQ(from_channel_blocks(blocked).data().to_vector<float>(), x.to_vector<float>());
  const auto plain = x.to_vector<float>(), values = blocked.data().to_vector<float>();
  EXPECT_EQ(values[static_cast<std::size_t>(b + 1)], plain[5 * 4 + 1]) << "channel 1 of pixel 1";
  EXPECT_FALSE(fits_channel_blocks({2, b + 1, 5, 4}, DType::f32, {}));
  EXPECT_FALSE(fits_channel_blocks(x.shape(), DType::f64, {}));
  EXPECT_THROW(static_cast<void>(empty_channel_blocked({2, b + 1, 5, 4}, DType::f32, {})),
               ShapeError);
}

TEST_F(ChannelBlocks, AreAPropertyOfTheValueNotOfItsShape) {
  const std::int64_t b = channel_block();
  const Variable image(random_tensor({2, 2 * b, 3, 4}, 1).to(DType::f32), true);
  const Variable blocked = to_channel_blocks(image);
  const Variable alike(random_tensor(blocked.shape(), 2).to(DType::f32));
  EXPECT_TRUE(is_channel_blocked(blocked.data()));
  EXPECT_FALSE(is_channel_blocked(alike.data()));
  EXPECT_EQ(from_channel_blocks(alike).data().data(), alike.data().data()) << "nothing to do";
  EXPECT_NE(describe(blocked.data()).find("channel blocks"), std::string::npos);
}

TEST_F(ChannelBlocks, AreKeptByElementwiseOperations) {
  const std::int64_t b = channel_block();
  const Tensor values = random_tensor({2, 2 * b, 3, 4}, 1).to(DType::f32);
  const auto result = [&](bool blocks) {
    const Variable x(values, true);
    const Variable in = blocks ? to_channel_blocks(x) : x;
    Variable y = relu(in);
    for (const auto& f : {&silu, &sigmoid, &tanh, &exp, &sqrt}) y = f(y);
    y = div(mul(sub(add(y, in), mul(in, 0.5)), y), add(y, 1.0));
    EXPECT_EQ(is_channel_blocked(y.data()), blocks);
    EXPECT_EQ(is_channel_blocked(y.grad_buffer()), blocks) << "so is its gradient";
    EXPECT_EQ(is_channel_blocked(y.data().clone()), blocks);
    EXPECT_EQ(is_channel_blocked(y.data().slice(0, 1)), blocks);
    const Variable plain = from_channel_blocks(y);
    weighted_sum(plain, random_tensor(plain.shape(), 3).to(DType::f32)).backward();
    return std::vector{plain.data().to_vector<float>(), x.grad().to_vector<float>()};
  };
  EXPECT_EQ(result(true), result(false));
}

TEST_F(ChannelBlocks, AreRefusedByOtherOperations) {
  const std::int64_t b = channel_block();
  const Variable x = to_channel_blocks(Variable(Tensor::full({2, b, 4, 4}, 1.0), true));
  const Variable alike(Tensor::full(x.shape(), 1.0)), last(Tensor::full({b}, 1.0));
  const std::vector<std::pair<const char*, std::function<void()>>> cases{
      {"add of a plain one", [&] { static_cast<void>(add(x, alike)); }},
      {"add to a plain one", [&] { static_cast<void>(add(alike, x)); }},
      {"add by broadcasting", [&] { static_cast<void>(mul(x, last)); }},
      {"softmax", [&] { static_cast<void>(softmax(x)); }},
      {"dropout", [&] { static_cast<void>(dropout(x, 0.5, {})); }},
      {"sum over a dimension", [&] { static_cast<void>(sum(x, {1})); }},
      {"flatten", [&] { static_cast<void>(flatten(x)); }},
      {"reshape", [&] { static_cast<void>(x.data().reshape({x.data().numel()})); }},
      {"permute",
       [&] {
         static_cast<void>(permute(x, {0, 1, 2, 4, 3}));
       }},
      {"narrow", [&] { static_cast<void>(narrow(x, 4, 0, 1)); }},
      {"masked_fill",
       [&] { static_cast<void>(masked_fill(x, Tensor::zeros({b}, DType::boolean), 1)); }},
      {"max_pool2d", [&] { static_cast<void>(max_pool2d(x, 2)); }},
      {"conversion", [&] { static_cast<void>(to(x, DType::f64)); }},
      {"layer_norm", [&] { static_cast<void>(layer_norm(x, last, {})); }},
      {"linear",
       [&] {
         static_cast<void>(linear(x, Variable(Tensor::full({3, b}, 1.0)), {}));
       }},
      {"copy_from", [&] { x.data().copy_from(alike.data()); }},
      {"a plain gradient buffer", [&] { x.set_grad_buffer(Tensor::zeros(x.shape())); }},
  };
  for (const auto& [what, f] : cases) {
    EXPECT_THROW(f(), ShapeError) << what;
    const NoGradGuard no_grad;
    EXPECT_THROW(f(), ShapeError) << what << " without gradients";
  }
}

TEST_F(ChannelBlocks, AreOnlyForFloatImages) {
  const std::int64_t b = channel_block();
  EXPECT_THROW(
      static_cast<void>(to_channel_blocks(Variable(Tensor::zeros({2, b, 3, 3}, DType::f64)))),
      ShapeError);
  EXPECT_THROW(static_cast<void>(to_channel_blocks(Variable(Tensor::zeros({2, b + 1, 3, 3})))),
               ShapeError);
  EXPECT_THROW(static_cast<void>(Tensor::zeros({2, 2}).with_layout(Layout::channel_blocks)),
               ShapeError);
}

struct ConvCase {
  const char* name;
  Shape x, weight;
  Conv2dOptions options;
};

class BlockedConv2d : public ChannelBlocks, public testing::WithParamInterface<ConvCase> {};

TEST_P(BlockedConv2d, AgreesWithTheConvolutionInDouble) {
  const auto& c = GetParam();
  const auto blocked = [&](const Inputs& v) {
    const bool fits = fits_channel_blocks(v[0].shape(), DType::f32, {});
    const Variable y = conv2d(fits ? to_channel_blocks(v[0]) : v[0], v[1], v[2], c.options,
                              Layout::channel_blocks);
    EXPECT_EQ(is_channel_blocked(y.data()), c.weight[0] % channel_block() == 0);
    return from_channel_blocks(y);
  };
  expect_agreement(
      blocked, [&](const Inputs& v) { return conv2d(v[0], v[1], v[2], c.options); },
      {c.x, c.weight, {c.weight[0]}}, 3e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, BlockedConv2d,
    testing::Values(ConvCase{"stem", {2, 3, 9, 7}, {32, 3, 3, 3}, {{1, 1}, {1, 1}}},
                    ConvCase{"stride", {2, 32, 9, 8}, {48, 32, 3, 3}, {{2, 2}, {1, 1}}},
                    ConvCase{"pointwise_stride", {3, 16, 8, 8}, {32, 16, 1, 1}, {{2, 2}}},
                    ConvCase{"odd_outputs", {2, 32, 6, 5}, {13, 32, 3, 3}, {{1, 1}, {1, 1}}},
                    ConvCase{"winograd", {2, 64, 11, 13}, {80, 64, 3, 3}, {{1, 1}, {1, 1}}},
                    ConvCase{"winograd_small", {5, 64, 4, 4}, {64, 64, 3, 3}, {{1, 1}, {1, 1}}},
                    ConvCase{"winograd_parts", {3, 64, 3, 4}, {256, 64, 3, 3}, {{1, 1}, {1, 1}}}),
    [](const auto& test) { return test.param.name; });

TEST_F(ChannelBlocks, WinogradInPartsAgreesWithoutBlocks) {
  const Conv2dOptions options{{1, 1}, {1, 1}};
  const auto plain = [&](const Inputs& v) { return conv2d(v[0], v[1], {}, options); };
  expect_agreement(plain, plain, {{3, 64, 4, 4}, {256, 64, 3, 3}}, 3e-6);
}

TEST_F(ChannelBlocks, BatchNormAgreesWithThePlainOneInDouble) {
  for (const bool training : {true, false}) {
    for (const bool relu : {true, false}) {
      for (const bool has_residual : {true, false}) {
        SCOPED_TRACE(training * 4 + relu * 2 + has_residual);
        const auto with = [&](bool blocks, BatchNormStatistics& statistics) {
          return [&, blocks](const Inputs& v) {
            const DType dtype = v[0].data().dtype();
            statistics = {random_tensor({32}, 7).to(DType::f32).to(dtype),
                          Tensor::full({32}, 0.5, dtype)};
            const Variable residual = has_residual ? v[3] : Variable();
            return from_channel_blocks(batch_norm(blocks ? to_channel_blocks(v[0]) : v[0], v[1],
                                                  v[2], statistics, training, 0.3, 1e-3, residual,
                                                  relu));
          };
        };
        BatchNormStatistics blocked, plain;
        std::vector<Shape> shapes{{3, 32, 5, 7}, {32}, {32}};
        if (has_residual) shapes.push_back(shapes[0]);
        expect_agreement(with(true, blocked), with(false, plain), shapes, 1e-6);
        EXPECT_LE(relative_difference(blocked.running_mean, plain.running_mean), 1e-6);
        EXPECT_LE(relative_difference(blocked.running_var, plain.running_var), 1e-6);
      }
    }
  }
}

TEST_F(ChannelBlocks, BatchNormOfAnInputThatIsItsOwnResidual) {
  const auto with = [](bool blocks) {
    return [blocks](const Inputs& v) {
      const BatchNormStatistics statistics{Tensor::zeros({16}, v[0].data().dtype()),
                                           Tensor::zeros({16}, v[0].data().dtype())};
      const Variable x = blocks ? to_channel_blocks(v[0]) : v[0];
      return from_channel_blocks(batch_norm(x, v[1], v[2], statistics, true, 0.1, 1e-3, x, true));
    };
  };
  expect_agreement(with(true), with(false), {{3, 16, 4, 4}, {16}, {16}}, 1e-6);
}

TEST_F(ChannelBlocks, BatchNormStatisticsFarFromZeroAreAccurate) {
  // Mean 4096 and steps of 1/16, all exact in f32.
  std::vector<float> values(static_cast<std::size_t>(16 * 6 * 256));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 4096.0F + static_cast<float>(i * 37 % 64) / 16.0F;
  }
  const Tensor x = Tensor::from(values, {6, 16, 16, 16});
  const auto variance = [&](const Variable& image, DType dtype) {
    const BatchNormStatistics statistics{Tensor::zeros({16}, dtype), Tensor::zeros({16}, dtype)};
    static_cast<void>(batch_norm(image, Variable(Tensor::full({16}, 1.0, dtype)),
                                 Variable(Tensor::zeros({16}, dtype)), statistics, true, 1.0));
    return statistics.running_var;
  };
  EXPECT_LE(relative_difference(variance(to_channel_blocks(Variable(x)), DType::f32),
                                variance(Variable(x.to(DType::f64)), DType::f64)),
            1e-6);
}

}  // namespace
}  // namespace lockstep::test
