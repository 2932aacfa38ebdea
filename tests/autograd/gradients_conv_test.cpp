// Backward against central differences in double.
#include <gtest/gtest.h>

#include <lockstep/autograd/functional/conv.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

struct ConvCase {
  const char* name;
  Shape x, weight;
  bool bias;
  Conv2dOptions options;
};

class Conv2dGradient : public testing::TestWithParam<ConvCase> {};

TEST_P(Conv2dGradient, AgreesWithCentralDifferences) {
  const auto& c = GetParam();
  std::vector<Tensor> inputs{random_tensor(c.x, 1), random_tensor(c.weight, 2)};
  if (c.bias) inputs.push_back(random_tensor({c.weight[0]}, 3));
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        return conv2d(v[0], v[1], v.size() > 2 ? v[2] : Variable(), c.options);
      },
      inputs);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Conv2dGradient,
    testing::Values(
        ConvCase{"plain", {2, 3, 6, 5}, {4, 3, 3, 2}, true, {}},
        ConvCase{
            "stride_and_padding", {2, 2, 7, 6}, {3, 2, 3, 3}, true, {{2, 3}, {1, 2}, {1, 1}, 1}},
        ConvCase{"dilation", {1, 2, 9, 8}, {2, 2, 3, 2}, false, {{1, 2}, {2, 0}, {3, 2}, 1}},
        ConvCase{"groups", {2, 4, 5, 5}, {6, 2, 3, 3}, true, {{1, 1}, {1, 1}, {1, 1}, 2}},
        ConvCase{"depthwise", {1, 3, 5, 4}, {3, 1, 2, 2}, true, {{1, 1}, {0, 0}, {1, 1}, 3}},
        ConvCase{"pointwise", {2, 3, 4, 3}, {5, 3, 1, 1}, true, {}},
        ConvCase{"pointwise_stride", {1, 2, 5, 5}, {3, 2, 1, 1}, true, {{2, 2}, {0, 0}, {1, 1}, 1}},
        ConvCase{
            "padding_beyond_kernel", {1, 1, 3, 3}, {1, 1, 2, 2}, true, {{1, 2}, {3, 4}, {1, 1}, 1}},
        ConvCase{"kernel_as_large_as_input", {2, 2, 4, 5}, {3, 2, 4, 5}, true, {}}),
    [](const auto& test) { return test.param.name; });

TEST(MaxPool2dGradient, AgreesWithCentralDifferences) {
  for (const Pool2dOptions& options :
       {Pool2dOptions{2, 2, 0}, {3, 2, 1}, {3, 1, 0}, {2, 3, 1}, {3, 3, 1}}) {
    SCOPED_TRACE(options.kernel[0] * 100 + options.stride.or_kernel(options.kernel)[0] * 10 +
                 options.padding[0]);
    expect_gradients([&](const std::vector<Variable>& v) { return max_pool2d(v[0], options); },
                     {random_tensor({2, 2, 7, 6}, 4)});
  }
}

TEST(AvgPool2dGradient, AgreesWithCentralDifferences) {
  for (const Pool2dOptions& options :
       {Pool2dOptions{2, 2, 0}, {3, 2, 1}, {3, 1, 0}, {2, 3, 1}, {5, 2, 2}}) {
    for (const bool count_include_pad : {true, false}) {
      SCOPED_TRACE(options.kernel[0] * 100 + options.stride.or_kernel(options.kernel)[0] * 10 +
                   options.padding[0]);
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return avg_pool2d(v[0], options, count_include_pad);
          },
          {random_tensor({2, 2, 7, 6}, 4)});
    }
  }
}

TEST(AdaptiveAvgPool2dGradient, AgreesWithCentralDifferences) {
  for (const std::int64_t size : {1, 2, 3, 5, 9}) {
    SCOPED_TRACE(size);
    expect_gradients(
        [&](const std::vector<Variable>& v) { return adaptive_avg_pool2d(v[0], size); },
        {random_tensor({2, 3, 7, 5}, 4)});
  }
}

}  // namespace
}  // namespace lockstep::test
