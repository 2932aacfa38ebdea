// Backward against central differences in double, for every operation and every input.
#include <lockstep/autograd/functional.hpp>

#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

Tensor targets(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(values, shape);
}

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
  for (const Pool2dOptions options :
       {Pool2dOptions{2, 2, 0}, {3, 2, 1}, {3, 1, 0}, {2, 3, 1}, {3, 3, 1}}) {
    SCOPED_TRACE(options.kernel * 100 + options.stride * 10 + options.padding);
    expect_gradients([&](const std::vector<Variable>& v) { return max_pool2d(v[0], options); },
                     {random_tensor({2, 2, 7, 6}, 4)});
  }
}

TEST(LinearGradient, AgreesWithCentralDifferences) {
  const Tensor weight = random_tensor({5, 4}, 6), bias = random_tensor({5}, 7);
  for (const Shape& shape : {Shape{3, 4}, Shape{4}, Shape{2, 3, 4}}) {
    SCOPED_TRACE(to_string(shape));
    expect_gradients([](const std::vector<Variable>& v) { return linear(v[0], v[1], v[2]); },
                     {random_tensor(shape, 5), weight, bias});
    expect_gradients([](const std::vector<Variable>& v) { return linear(v[0], v[1], {}); },
                     {random_tensor(shape, 5), weight});
  }
}

TEST(ReluGradient, AgreesWithCentralDifferences) {
  expect_gradients([](const std::vector<Variable>& v) { return relu(v[0]); },
                   {random_tensor({3, 21}, 8)});
}

TEST(DropoutGradient, AgreesWithCentralDifferences) {
  const RandomKey key{5, 1, 2, 3};
  expect_gradients([&](const std::vector<Variable>& v) { return dropout(v[0], 0.4, key); },
                   {random_tensor({3, 13}, 9)});
  expect_gradients([&](const std::vector<Variable>& v) { return dropout2d(v[0], 0.4, key); },
                   {random_tensor({3, 5, 2, 3}, 9)});
}

TEST(LogSoftmaxGradient, AgreesWithCentralDifferencesAlongEveryDimension) {
  for (const int dim : {0, 1, 2, -1, -2}) {
    SCOPED_TRACE(dim);
    expect_gradients([&](const std::vector<Variable>& v) { return log_softmax(v[0], dim); },
                     {random_tensor({2, 19, 3}, 10)});
  }
}

/// Every reduction, with and without weights, an ignored row among them.
std::vector<LossOptions> loss_variants() {
  std::vector<LossOptions> variants;
  for (const auto reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    for (const bool weighted : {false, true}) {
      LossOptions options;
      options.reduction = reduction;
      options.ignore_index = 2;
      if (weighted) options.class_weight = Tensor::from(std::vector{0.5, 2.0, 1.5, 0.25}, {4});
      variants.push_back(options);
    }
  }
  return variants;
}

TEST(NllLossGradient, AgreesWithCentralDifferences) {
  for (const LossOptions& options : loss_variants()) {
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return nll_loss(v[0], targets({0, 3, 2, 1, 1}, {5}), options);
        },
        {random_tensor({5, 4}, 11)});
    expect_gradients(
        [&](const std::vector<Variable>& v) {
          return nll_loss(v[0], targets({0, 3, 2, 1, 1, 0}, {2, 3}), options);
        },
        {random_tensor({2, 4, 3}, 12)});
  }
}

TEST(CrossEntropyGradient, AgreesWithCentralDifferences) {
  for (LossOptions options : loss_variants()) {
    for (const double smoothing : {0.0, 0.2}) {
      options.label_smoothing = smoothing;
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return cross_entropy(v[0], targets({0, 3, 2, 1, 1}, {5}), options);
          },
          {random_tensor({5, 4}, 13)});
      expect_gradients(
          [&](const std::vector<Variable>& v) {
            return cross_entropy(v[0], targets({0, 3, 2, 1, 1, 0}, {2, 3}), options);
          },
          {random_tensor({2, 4, 3}, 14)});
    }
  }
}

TEST(ReshapeGradient, AgreesWithCentralDifferencesAlsoWhereUsedTwice) {
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Variable flat = flatten(relu(v[0]));
        return linear(flat, reshape(v[1], {3, 12}), {});
      },
      {random_tensor({2, 3, 4}, 15), random_tensor({36}, 16)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        return linear(reshape(v[0], {2, 6}), reshape(v[0], {2, 6}), {});
      },
      {random_tensor({3, 4}, 17)});
}

// Whether a node overwrites or adds is decided by who came first: sharing one input between two
// operations exercises the adding half of every kernel.
TEST(SharedInput, GradientsOfEveryUseAddUp) {
  const Conv2dOptions padded{{1, 1}, {1, 1}, {1, 1}, 1};
  expect_gradients(
      [&](const std::vector<Variable>& v) {
        Variable y = conv2d(v[0], v[1], v[2], padded);
        y = conv2d(y, v[1], v[2], padded);  // weight and bias used twice
        return linear(flatten(max_pool2d(y, {3, 1, 1})), flatten(relu(y)), {});  // y used twice
      },
      {random_tensor({2, 2, 2, 2}, 18), random_tensor({2, 2, 3, 3}, 19), random_tensor({2}, 20)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Variable y = linear(linear(v[0], v[1], v[2]), v[1], v[2]);
        return linear(log_softmax(y), dropout(y, 0.3, {1, 0, 0, 0}), {});
      },
      {random_tensor({2, 3}, 21), random_tensor({3, 3}, 22), random_tensor({3}, 23)});
  expect_gradients(
      [](const std::vector<Variable>& v) {
        const Tensor target = targets({1, 2}, {2});
        const LossOptions each{.reduction = Reduction::none};
        const Variable a = reshape(cross_entropy(v[0], target, each), {1, 2});
        const Variable b = reshape(nll_loss(v[0], target, each), {1, 2});
        return linear(a, b, {});
      },
      {random_tensor({2, 3}, 24)});
}

}  // namespace
}  // namespace lockstep::test
