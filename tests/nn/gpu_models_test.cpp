// Models train on a GPU, as far as that shows without one: no operation of theirs refuses it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/layout_guard.hpp>
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

/// Calls of layers by the dtype of their results, but for losses and the last layers'
/// probabilities.
class ResultTypes : public ForwardHook {
 public:
  void before(const Module& /*module*/, const Variable& /*x*/) override {}
  void after(const Module& module, Variable& y) override {
    if (dynamic_cast<const LogSoftmax*>(&module) || dynamic_cast<const Sequential*>(&module))
      return;
    ++(y.data().dtype() == DType::bf16 ? narrow_ : wide_);
  }
  [[nodiscard]] int narrow() const { return narrow_; }
  [[nodiscard]] int wide() const { return wide_; }

 private:
  int narrow_ = 0, wide_ = 0;
};

/// Forward and backward under Autocast, layer by layer and with what models fuse.
template <class Make>
void expect_results_of_16_bits(const Shape& batch, int layers, const Make& make) {
  const test::GpuStandIn gpu;
  const Device device{DeviceType::sim, 0};
  const DeviceGuard there(device);
  manual_seed(4);
  const std::shared_ptr<Sequential> model = make();
  const Variable x(numbers(batch, device).to(DType::f32));
  const auto train = [&](const auto& forward) {
    CachingAllocator::of(device).flush();
    Variable loss;
    {
      const Autocast autocast(Precision::bf16);
      loss = nll_loss(forward(), classes({batch[0]}, 10, device));
    }
    loss.backward();
    for (const Variable& parameter : model->parameters()) {
      EXPECT_EQ(parameter.grad().dtype(), DType::f32);
    }
    return loss.data().item();
  };
  const ResultTypes types;
  const double apart = train([&] { return (*model)(x); });
  EXPECT_EQ(types.wide(), 0);
  EXPECT_EQ(types.narrow(), layers);
  EXPECT_TRUE(std::isfinite(apart));
}

/// Children one after the other, each with what it fuses.
template <class Make>
void expect_children_of_16_bits(const Shape& batch, const Make& make) {
  const test::GpuStandIn gpu;
  const Device device{DeviceType::sim, 0};
  const DeviceGuard there(device);
  CachingAllocator::of(device).flush();
  const std::shared_ptr<Sequential> model = make();
  const Autocast autocast(Precision::bf16);
  Variable y(numbers(batch, device).to(DType::f32));
  for (const auto& [name, child] : model->children()) {
    y = (*child)(y);
    EXPECT_EQ(y.data().dtype(), name == "log_softmax" ? DType::f32 : DType::bf16) << name;
  }
}

TEST(GpuModels, ResNet18KeepsActivationsIn16BitsUnderAutocast) {
  const auto make = [] { return resnet18({3, 8, 8}, 10); };
  // 20 convolutions, each with a BatchNorm; 8 blocks; ReLU, pool, Flatten and Linear.
  expect_results_of_16_bits({2, 3, 8, 8}, 52, make);
  expect_children_of_16_bits({2, 3, 8, 8}, make);
}

TEST(GpuModels, ConvNetKeepsActivationsIn16BitsUnderAutocast) {
  const auto make = [] { return convnet({1, 28, 28}, 10); };
  expect_results_of_16_bits({3, 1, 28, 28}, 12, make);
  expect_children_of_16_bits({3, 1, 28, 28}, make);
}

TEST(GpuModels, AutocastTrainsTheFusedRowsOfModels) {
  const auto losses = [](Device device) {
    const DeviceGuard there(device);
    std::vector<double> all;
    for (const bool is_resnet : {false, true}) {
      manual_seed(4);
      if (device.type != DeviceType::host) CachingAllocator::of(device).flush();
      const Shape image = is_resnet ? Shape{3, 8, 8} : Shape{1, 28, 28};
      const auto model = is_resnet ? resnet18(image, 10) : convnet(image, 10);
      const Tensor images = numbers({3, image[0], image[1], image[2]}, device).to(DType::f32);
      Variable loss;
      {
        const Autocast autocast(Precision::bf16);
        loss = nll_loss((*model)(Variable(images)), classes({3}, 10, device));
      }
      loss.backward();
      all.push_back(loss.data().item());
    }
    return all;
  };
  const auto expected = losses({});
  const test::GpuStandIn gpu;
  const int before = test::GpuStandIn::narrow_convolutions();
  const int last_before = test::GpuStandIn::channels_last();
  const auto found = losses({DeviceType::sim, 0});
  // Each of 22 convolutions in three passes; the images take no gradient.
  EXPECT_EQ(test::GpuStandIn::narrow_convolutions() - before, 3 * 22 - 2);
  // With channels last all of ResNet-18 but the first, of three channels.
  EXPECT_EQ(test::GpuStandIn::channels_last() - last_before, 3 * 19);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 0.05 * expected[i]) << i;
  }
}

TEST(GpuModels, ConvolutionsKeepChannelsLastIn16BitsUnlessImagesAreToBePlain) {
  const test::GpuStandIn gpu;
  const Device device{DeviceType::sim, 0};
  const DeviceGuard there(device);
  const auto train = [&](ImageLayout layout) {
    manual_seed(4);
    CachingAllocator::of(device).flush();
    const LayoutGuard guard(layout);
    const auto convolution = [](std::int64_t in, std::int64_t out) {
      return std::make_shared<Conv2d>(in, out, 3, Conv2dOptions{.padding = 1});
    };
    Sequential model{convolution(3, 8),
                     std::make_shared<BatchNorm2d>(8),
                     std::make_shared<Residual>(convolution(8, 8)),
                     convolution(8, 16),
                     std::make_shared<MaxPool2d>(2),
                     std::make_shared<ReLU>(),
                     std::make_shared<AvgPool2d>(PoolOptions<2>{.kernel = 2, .stride = 1}),
                     convolution(16, 8),
                     std::make_shared<AdaptiveAvgPool2d>(1),
                     std::make_shared<Flatten>(),
                     std::make_shared<Linear>(8, 10)};
    Variable loss;
    {
      const Autocast autocast(Precision::bf16);
      const Variable x(numbers({3, 3, 6, 6}, device).to(DType::f32));
      loss = cross_entropy(model(x), classes({3}, 10, device));
    }
    loss.backward();
    std::vector<double> all{loss.data().item()};
    for (const Variable& parameter : model.parameters()) {
      const auto gradient = parameter.grad().to(DType::f64).to_vector<double>();
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
    return all;
  };
  const auto passes = [](int before) { return test::GpuStandIn::channels_last() - before; };
  const int start = test::GpuStandIn::channels_last();
  const auto expected = train(ImageLayout::plain);
  EXPECT_EQ(passes(start), 0);
  const auto found = train(ImageLayout::automatic);
  // Three passes of all convolutions but the first, of three channels.
  EXPECT_EQ(passes(start), 3 * 3);
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], 2e-2 * largest) << i;
  }
}

TEST(GpuModels, PoolsTakeAndGiveChannelsLastButThoseOfUsersPlainImages) {
  class UsersPool : public MaxPool2d {
   public:
    using MaxPool2d::MaxPool2d;
  };
  const test::GpuStandIn gpu;
  const Device device{DeviceType::sim, 0};
  const Variable x(in_channel_blocks(Tensor::full({2, 8, 6, 6}, 1, DType::bf16, device)));
  MaxPool2d max_pool(2);
  AvgPool2d avg_pool(3);
  AdaptiveMaxPool2d adaptive_max_pool(4);
  AdaptiveAvgPool2d adaptive_avg_pool(2);
  for (Module* const pool : std::initializer_list<Module*>{&max_pool, &avg_pool, &adaptive_max_pool,
                                                           &adaptive_avg_pool}) {
    EXPECT_TRUE(is_channel_blocked(forward_blocked(*pool, x).data()));
  }
  UsersPool users_pool(2);
  EXPECT_FALSE(is_channel_blocked(forward_blocked(users_pool, x).data()));
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

/// Calls of a gpt's MLPs, whose layers it does not see: as FullyShardedDataParallel with units of
/// them.
class CallsOfMlps : public ForwardHook {
 public:
  void before(const Module& module, const Variable& /*x*/) override {
    const auto& children = module.children();
    if (!children.empty() && children[0].first == "c_fc") ++calls_;
  }
  void after(const Module& /*module*/, Variable& /*y*/) override {}
  [[nodiscard]] bool sees_parts_of(const Module& /*module*/) const override { return false; }
  [[nodiscard]] int calls() const { return calls_; }

 private:
  int calls_ = 0;
};

TEST(GpuModels, GptComputesGeluByItsProductsIn16BitsUnlessAHookSeesTheirLayers) {
  const test::GpuStandIn gpu;
  const Device device{DeviceType::sim, 0};
  const DeviceGuard there(device);
  constexpr int depth = 3;
  int products = 0;
  const auto train = [&](bool recompute) {
    manual_seed(4);
    CachingAllocator::of(device).flush();
    Gpt gpt({.vocabulary = 11,
             .context = 6,
             .width = 8,
             .depth = depth,
             .heads = 2,
             .recompute = recompute});
    const int before = test::GpuStandIn::products_with_gelu();
    Variable loss;
    {
      const Autocast autocast(Precision::bf16);
      loss = gpt.loss(Variable(classes({2, 6}, 11, device)), classes({2, 6}, 11, device));
    }
    loss.backward();
    products = test::GpuStandIn::products_with_gelu() - before;
    std::vector<std::vector<double>> all{loss.data().to(DType::f64).to_vector<double>()};
    for (const Variable& parameter : gpt.parameters()) {
      all.push_back(parameter.grad().to(DType::f64).to_vector<double>());
    }
    return all;
  };
  const auto expected = train(false);
  EXPECT_EQ(products, 2 * depth);
  EXPECT_EQ(train(true), expected);
  EXPECT_EQ(products, 3 * depth);
  {
    const CallsOfMlps hook;
    EXPECT_EQ(train(true), expected);
    EXPECT_EQ(products, 3 * depth);
    EXPECT_EQ(hook.calls(), 2 * depth) << "forward, and again in backward";
  }
  const ResultTypes sees_layers;
  EXPECT_NEAR(train(false)[0][0], expected[0][0], 1e-2);
  EXPECT_EQ(products, 0);
}

}  // namespace
}  // namespace lockstep::nn
