// conv2d_max_pool2d_relu against the operations that it stands for, one by one.
#include <support/allocation_counter.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

#include <support/larger.hpp>

#include <lockstep/autograd/functional.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

using Inputs = std::vector<Variable>;

struct Layer {
  const char* name;
  Shape x, weight;
  bool bias = true, scale = false;
  Conv2dOptions conv = {};
  Pool2dOptions pool = {.kernel = 2};
};

/// Factors 0 and 2, as of dropout2d with p = 0.5.
Tensor channel_scale(const Layer& layer, DType dtype) {
  if (!layer.scale) return {};
  const Shape shape{layer.x[0], layer.weight[0]};
  Tensor scale = Tensor::empty(shape, dtype);
  dropout_scale(0.5, {3, 1, 4, 1}, scale);
  return scale;
}

Inputs make_inputs(const Layer& layer, DType dtype) {
  Inputs inputs{Variable(random_tensor(layer.x, 1).to(dtype), true),
                Variable(random_tensor(layer.weight, 2).to(dtype), true)};
  if (layer.bias) inputs.emplace_back(random_tensor({layer.weight[0]}, 3).to(dtype), true);
  return inputs;
}

Variable fused(const Layer& layer, const Inputs& v, const Tensor& scale) {
  return conv2d_max_pool2d_relu(v[0], v[1], v.size() > 2 ? v[2] : Variable(), layer.conv,
                                layer.pool, scale);
}

Variable one_by_one(const Layer& layer, const Inputs& v) {
  Variable y = conv2d(v[0], v[1], v.size() > 2 ? v[2] : Variable(), layer.conv);
  if (layer.scale) y = dropout2d(y, 0.5, {3, 1, 4, 1});
  return relu(max_pool2d(y, layer.pool));
}

/// Value and gradients, in double.
std::vector<std::vector<double>> results(const Variable& y, const Inputs& inputs) {
  weighted_sum(y, random_tensor(y.shape(), 9).to(y.data().dtype())).backward();
  std::vector<std::vector<double>> all{y.data().to(DType::f64).to_vector<double>()};
  for (const Variable& v : inputs) all.push_back(v.grad().to(DType::f64).to_vector<double>());
  return all;
}

class Conv2dMaxPool2dRelu : public testing::TestWithParam<Layer> {};

TEST_P(Conv2dMaxPool2dRelu, EqualsTheOperationsOneByOne) {
  const Layer layer = GetParam();
  const Inputs a = make_inputs(layer, DType::f32), b = make_inputs(layer, DType::f32);
  const auto together = results(fused(layer, a, channel_scale(layer, DType::f32)), a);
  const auto apart = results(one_by_one(layer, b), b);
  ASSERT_EQ(together.size(), apart.size());
  for (std::size_t t = 0; t < apart.size(); ++t) {
    ASSERT_EQ(together[t].size(), apart[t].size());
    double largest = 0.0, difference = 0.0;
    for (std::size_t i = 0; i < apart[t].size(); ++i) {
      largest = std::max(largest, std::abs(apart[t][i]));
      difference = larger(difference, std::abs(together[t][i] - apart[t][i]));
    }
    // Both sides may be off by 16 roundings of the largest element.
    EXPECT_LE(difference, 32.0 * 0x1p-23 * largest) << "result " << t;
  }
}

// In double nothing is fused, so that the parts behind the same call are differentiated.
TEST_P(Conv2dMaxPool2dRelu, AgreesWithCentralDifferencesInDouble) {
  const Layer layer = GetParam();
  const Tensor scale = channel_scale(layer, DType::f64);
  std::vector<Tensor> inputs;
  for (const Variable& v : make_inputs(layer, DType::f64)) inputs.push_back(v.data());
  expect_gradients([&](const Inputs& v) { return fused(layer, v, scale); }, inputs);
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Conv2dMaxPool2dRelu,
    testing::Values(
        Layer{"plain", {2, 3, 8, 7}, {4, 3, 3, 3}},
        Layer{"scaled", {3, 2, 7, 8}, {5, 2, 3, 2}, true, true},
        Layer{"no_bias", {2, 1, 9, 9}, {3, 1, 5, 5}, false, true},
        Layer{
            "pool3_padded", {2, 2, 8, 8}, {3, 2, 3, 3}, true, true, {.padding = {1, 2}}, {3, 3, 0}},
        Layer{"unfused_stride", {2, 2, 9, 9}, {3, 2, 3, 3}, true, true, {.stride = {2, 1}}},
        Layer{
            "unfused_overlapping_windows", {2, 2, 9, 9}, {3, 2, 3, 3}, true, true, {}, {3, 2, 1}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Conv2dMaxPool2dRelu, ConvNetsLayersEqualTheOperationsOneByOne) {
  const Layer first{"", {8, 1, 28, 28}, {10, 1, 5, 5}};
  const Layer second{"", {8, 10, 12, 12}, {20, 10, 5, 5}, true, true};
  const Tensor scale = channel_scale(second, DType::f32);
  const auto run = [&](bool together) {
    Inputs v = make_inputs(first, DType::f32);
    const Inputs w = make_inputs(second, DType::f32);
    v[0] = Variable(v[0].data());  // images are data
    const Variable hidden = together ? fused(first, v, {}) : one_by_one(first, v);
    const Inputs u{hidden, w[1], w[2]};
    const Variable y = together ? fused(second, u, scale) : one_by_one(second, u);
    return results(y, {v[1], v[2], w[1], w[2]});
  };
  const auto together = run(true), apart = run(false);
  for (std::size_t t = 0; t < apart.size(); ++t) {
    double largest = 0.0;
    for (const double e : apart[t]) largest = std::max(largest, std::abs(e));
    for (std::size_t i = 0; i < apart[t].size(); ++i)
      ASSERT_NEAR(together[t][i], apart[t][i], 64.0 * 0x1p-23 * largest) << t << ", " << i;
  }
}

TEST(Conv2dMaxPool2dRelu, WeightsUsedTwiceGetTheSumOfTheirGradients) {
  const Layer layer{"", {2, 3, 10, 10}, {3, 3, 3, 3}, true, true, {.padding = {1, 1}}};
  const Tensor scale = channel_scale(layer, DType::f32);
  const Inputs a = make_inputs(layer, DType::f32), b = make_inputs(layer, DType::f32);
  const auto together = results(fused(layer, {fused(layer, a, scale), a[1], a[2]}, scale), a);
  const auto apart = results(one_by_one(layer, {one_by_one(layer, b), b[1], b[2]}), b);
  for (std::size_t t = 0; t < apart.size(); ++t) {
    double largest = 0.0;
    for (const double e : apart[t]) largest = std::max(largest, std::abs(e));
    for (std::size_t i = 0; i < apart[t].size(); ++i)
      ASSERT_NEAR(together[t][i], apart[t][i], 64.0 * 0x1p-23 * largest) << t << ", " << i;
  }
}

TEST(Conv2dMaxPool2dRelu, GivesTheSameValueWithoutRecording) {
  const Layer layer{"", {2, 3, 8, 7}, {4, 3, 3, 3}, true, true};
  const Tensor scale = channel_scale(layer, DType::f32);
  const Inputs v = make_inputs(layer, DType::f32);
  const auto recorded = fused(layer, v, scale).data().to_vector<float>();
  const NoGradGuard guard;
  const Variable y = fused(layer, v, scale);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.data().to_vector<float>(), recorded);
}

TEST(Conv2dMaxPool2dRelu, SteadyLoopAllocatesNothing) {
  const Layer layer{"", {8, 10, 12, 12}, {20, 10, 5, 5}, true, true};
  const Tensor scale = channel_scale(layer, DType::f32);
  const Inputs v = make_inputs(layer, DType::f32);
  std::int64_t calls = 0, system = 0;
  for (int step = 0; step < 23; ++step) {
    const Variable y = fused(layer, v, scale);
    const Tensor one = Tensor::full({1, y.data().numel()}, 1.0);
    const Variable total = linear(reshape(y, {1, y.data().numel()}), Variable(one), {});
    total.backward();
    for (const Variable& input : v) input.zero_grad();
    if (step == 2) calls = allocation_count(), system = memory_stats().system_allocations;
  }
  EXPECT_EQ(allocation_count(), calls) << "operator new";
  EXPECT_EQ(memory_stats().system_allocations, system) << "system's allocator";
}

}  // namespace
}  // namespace lockstep::test
