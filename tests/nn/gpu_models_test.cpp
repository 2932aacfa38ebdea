// Models train on a GPU, as far as that shows without one: no operation of theirs refuses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <support/gpu_stand_in.hpp>

namespace lockstep::nn {
namespace {

template <class Make, class Loss>
std::vector<double> step(Device device, const Make& make, const Loss& loss_of) {
  manual_seed(4);
  const DTypeGuard precise(DType::f64);
  const DeviceGuard there(device);
  if (device.type != DeviceType::host) {
    CachingAllocator::of(device).flush();  // a device opens and closes what it keeps at each wait
  }
  const auto model = make();
  const Variable loss = loss_of(*model);
  loss.backward();
  std::vector<double> all = loss.data().to_vector<double>();
  for (const Variable& parameter : model->parameters()) {
    const auto elements = parameter.grad().to_vector<double>();
    all.insert(all.end(), elements.begin(), elements.end());
  }
  return all;
}

Tensor numbers(const Shape& shape, Device device) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<double>(i) * 0.7);
  }
  return Tensor::from(values, shape).to(device);
}

Tensor classes(const Shape& shape, std::int64_t count, Device device) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int64_t>(i * 7 + 3) % count;
  }
  return Tensor::from(values, shape).to(device);
}

template <class Make>
void expect_classifier_trains(const Shape& batch, const Make& make) {
  const auto train = [&](Device device) {
    return step(device, make, [&](Module& model) {
      return nll_loss(model(Variable(numbers(batch, device))), classes({batch[0]}, 10, device));
    });
  };
  const auto expected = train({});
  const test::GpuStandIn gpu;
  const int runs = test::GpuStandIn::runs();
  const auto found = train({DeviceType::sim, 0});
  EXPECT_GT(test::GpuStandIn::runs(), runs);
  ASSERT_EQ(found.size(), expected.size());
  // A BatchNorm over few numbers, ResNet-18's last ones, makes large differences of small ones.
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-9 * largest) << i;
  }
}

TEST(GpuModels, MlpTrains) {
  expect_classifier_trains({6, 1, 5, 5}, [] { return mlp({1, 5, 5}, 10, {16, 12}); });
}

TEST(GpuModels, ConvNetTrains) {
  expect_classifier_trains({3, 1, 28, 28}, [] { return convnet({1, 28, 28}, 10); });
}

TEST(GpuModels, ResNet18Trains) {
  expect_classifier_trains({2, 3, 8, 8}, [] { return resnet18({3, 8, 8}, 10); });
}

TEST(GpuModels, TransformerTrains) {
  expect_classifier_trains({2, 1, 8, 8}, [] {
    return transformer({1, 8, 8}, 10, {.width = 8, .depth = 2, .heads = 2, .patch = {4}});
  });
}

TEST(GpuModels, GptTrains) {
  const auto train = [](Device device) {
    return step(
        device,
        [] {
          return std::make_shared<Gpt>(GptOptions{
              .vocabulary = 11, .context = 6, .width = 8, .depth = 2, .heads = 2, .dropout = 0.1});
        },
        [&](Gpt& gpt) {
          return gpt.loss(Variable(classes({2, 6}, 11, device)), classes({2, 6}, 11, device));
        });
  };
  const auto expected = train({});
  const test::GpuStandIn gpu;
  const auto found = train({DeviceType::sim, 0});
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-10) << i;
}

}  // namespace
}  // namespace lockstep::nn
