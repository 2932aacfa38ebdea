// Layers and models on a device: outputs, gradients and buffers have the host's bits on a simulated
// one, and on a GPU, or where it stands in for one, close numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/nn/categorical.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/gpt_sampler.hpp>
#include <lockstep/nn/models/unet.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/state_dict.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/message_of.hpp>
#include <support/test_devices.hpp>

namespace lockstep::nn {
namespace {

/// Makes layers and inputs on one device, the same on each, and keeps what comes of them.
class OneDevice {
 public:
  explicit OneDevice(Device where) : where_(where) { manual_seed(3); }

  template <class Layer, class... Arguments>
  std::shared_ptr<Layer> make(Arguments&&... arguments) {
    return made([&] { return std::make_shared<Layer>(std::forward<Arguments>(arguments)...); });
  }
  /// What `factory` returns.
  template <class Factory>
  auto made(const Factory& factory) {
    const DeviceGuard guard(where_);
    auto layer = factory();
    layers_.push_back(layer);
    return layer;
  }
  Variable input(const Shape& shape) {
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    const double start = 1.0 + static_cast<double>(inputs_.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(std::sin(start + 0.7 * static_cast<double>(i)));
    inputs_.emplace_back(Tensor::from(values, shape).to(where_), true);
    return inputs_.back();
  }
  [[nodiscard]] Tensor integers(const Shape& shape, std::int64_t below) const {
    std::vector<std::int64_t> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int64_t>(i * 7 + 3) % below;
    return Tensor::from(values, shape).to(where_);
  }
  [[nodiscard]] Tensor flags(const std::vector<double>& values, const Shape& shape) const {
    return Tensor::from(values, shape).to(DType::boolean).to(where_);
  }
  /// A layer of one input.
  template <class Layer, class... Arguments>
  Variable of(const Shape& shape, Arguments&&... arguments) {
    return (*make<Layer>(std::forward<Arguments>(arguments)...))(input(shape));
  }

  /// The output, after a backward gradients and the layers' state.
  std::vector<std::vector<double>> numbers(const Variable& output) {
    std::vector<std::vector<double>> all;
    const auto add = [&](const Tensor& t) {
      EXPECT_EQ(t.device(), where_);
      all.push_back(t.to(DType::f64).to_vector<double>());
    };
    add(output.data());
    if (output.requires_grad()) sum(output * output * weights(output.shape())).backward();
    for (const Variable& x : inputs_) add(x.grad());
    for (const auto& layer : layers_) {
      for (const Variable& p : layer->parameters()) add(p.grad());
      for (const auto& entry : layer->state_dict()) add(entry.tensor);
    }
    return all;
  }

 private:
  /// Different ones, since a plain sum of squares does not depend on what a norm gets.
  [[nodiscard]] Variable weights(const Shape& shape) const {
    std::vector<float> values(static_cast<std::size_t>(shape.numel()));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1.0F + static_cast<float>(i * 7 % 11) / 11.0F;
    return Variable(Tensor::from(values, shape).to(where_));
  }

  Device where_;
  std::vector<std::shared_ptr<Module>> layers_;
  std::vector<Variable> inputs_;
};

struct Use {
  const char* name;
  Variable (*apply)(OneDevice& on);
  bool runs_on_gpus = true;
};

void PrintTo(const Use& use, std::ostream* out) { *out << use.name; }

/// What the host fuses, and holds in channel blocks, unless it is told otherwise.
std::shared_ptr<Module> images_to_classes() {
  return std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
      std::make_shared<Conv2d>(2, 16, 3), std::make_shared<Dropout2d>(0.4),
      std::make_shared<MaxPool2d>(2), std::make_shared<ReLU>(),
      std::make_shared<Residual>(std::make_shared<Conv2d>(16, 16, 3, Conv2dOptions{.padding = 1})),
      std::make_shared<BatchNorm2d>(16), std::make_shared<ReLU>(), std::make_shared<Flatten>()});
}

const std::vector<Use> uses{
    {"Linear",
     [](OneDevice& on) {
       return on.of<Linear>({4, 3}, 3, 5);
     }},
    {"PReLU",
     [](OneDevice& on) {
       return on.of<PReLU>({4, 3}, 3);
     }},
    {"GLU",
     [](OneDevice& on) {
       return on.of<GLU>({4, 6});
     }},
    {"LogSoftmax",
     [](OneDevice& on) {
       return on.of<LogSoftmax>({4, 6});
     }},
    {"Conv1d",
     [](OneDevice& on) {
       return on.of<Conv1d>({2, 3, 9}, 3, 5, 3);
     }},
    {"Conv2d",
     [](OneDevice& on) {
       return on.of<Conv2d>({2, 3, 9, 8}, 3, 5, 3);
     }},
    {"Conv3d",
     [](OneDevice& on) {
       return on.of<Conv3d>({2, 3, 5, 4, 4}, 3, 5, 2);
     }},
    {"ConvTranspose2d",
     [](OneDevice& on) {
       return on.of<ConvTranspose2d>({2, 3, 5, 4}, 3, 5, 3);
     }},
    {"ConvTranspose1dPaddedByAStride",
     [](OneDevice& on) {
       return on.of<ConvTranspose1d>({2, 3, 5}, 3, 5, 3,
                                     ConvTransposeOptions<1>{.output_padding = 1, .dilation = 2});
     }},
    {"ConvTranspose3dPaddedByAStride",
     [](OneDevice& on) {
       return on.of<ConvTranspose3d>({2, 4, 2, 3, 3}, 4, 2, 2,
                                     ConvTransposeOptions<3>{.padding = {0, 1, 1},
                                                             .output_padding = {2, 1, 0},
                                                             .dilation = {3, 2, 1},
                                                             .groups = 2});
     }},
    {"BatchNorm1d",
     [](OneDevice& on) {
       return on.of<BatchNorm1d>({6, 3}, 3);
     }},
    {"BatchNorm3d",
     [](OneDevice& on) {
       return on.of<BatchNorm3d>({2, 3, 3, 4, 2}, 3);
     }},
    {"LayerNorm",
     [](OneDevice& on) {
       return on.of<LayerNorm>({4, 6}, 6);
     }},
    {"RMSNorm",
     [](OneDevice& on) {
       return on.of<RMSNorm>({4, 6}, 6);
     }},
    {"GroupNorm",
     [](OneDevice& on) {
       return on.of<GroupNorm>({2, 6, 5}, 3, 6);
     }},
    {"InstanceNorm2d",
     [](OneDevice& on) {
       return on.of<InstanceNorm2d>({2, 3, 4, 4}, 3, 1e-5, true);
     }},
    {"LocalResponseNorm",
     [](OneDevice& on) {
       return on.of<LocalResponseNorm>({2, 5, 4}, 3);
     }},
    {"Dropout",
     [](OneDevice& on) {
       return on.of<Dropout>({4, 60}, 0.4);
     }},
    {"Dropout2d",
     [](OneDevice& on) {
       return on.of<Dropout2d>({4, 9, 2, 2}, 0.4);
     }},
    {"MaxPool3d",
     [](OneDevice& on) {
       return on.of<MaxPool3d>({2, 3, 4, 4, 4}, Extents<3>(2));
     }},
    {"AvgPool1d",
     [](OneDevice& on) {
       return on.of<AvgPool1d>({2, 3, 8}, Extents<1>(2));
     }},
    {"AdaptiveMaxPool2d",
     [](OneDevice& on) {
       return on.of<AdaptiveMaxPool2d>({2, 3, 5, 7}, Extents<2>(3));
     }},
    {"Upsample",
     [](OneDevice& on) {
       return on.of<Upsample>({2, 3, 4, 4}, 2.0, Interpolation::bilinear);
     }},
    {"PixelShuffle",
     [](OneDevice& on) {
       return on.of<PixelShuffle>({2, 4, 3, 3}, 2);
     }},
    {"Embedding",
     [](OneDevice& on) {
       return on.make<Embedding>(7, 3)->forward(Variable(on.integers({2, 5}, 7)));
     }},
    {"EmbeddingBag",
     [](OneDevice& on) {
       return on.make<EmbeddingBag>(7, 3)->forward(Variable(on.integers({2, 5}, 7)));
     }},
    {"MultiheadAttention",
     [](OneDevice& on) {
       const Tensor hidden = on.flags({0, 0, 1, 0, 0, 0, 0, 1}, {2, 4});
       const Variable x = on.input({2, 3, 6}), y = on.input({2, 4, 6});
       return on.make<MultiheadAttention>(6, 2)->forward(x, y, y, hidden);
     }},
    {"TransformerEncoder",
     [](OneDevice& on) {
       return on.of<TransformerEncoder>({2, 3, 6}, 2, 6, 2, 8, 0.1);
     }},
    {"TransformerDecoder",
     [](OneDevice& on) {
       DecoderMasks masks;
       masks.tgt_is_causal = true;
       masks.memory_key_padding_mask = on.flags({0, 0, 1, 0, 0, 0, 0, 1}, {2, 4});
       const Variable target = on.input({2, 3, 6}), memory = on.input({2, 4, 6});
       return on.make<TransformerDecoder>(2, 6, 2, TransformerDecoderOptions{.dim_feedforward = 8})
           ->forward(target, memory, masks);
     }},
    {"LSTM",
     [](OneDevice& on) {
       return on.of<LSTM>({5, 3, 4}, 4, 6, RecurrentOptions{.num_layers = 2, .dropout = 0.3});
     }},
    {"LSTMOfLengths",
     [](OneDevice& on) {
       const Tensor lengths = Tensor::from(std::vector<std::int64_t>{5, 2, 3}, {3});
       return on.make<LSTM>(4, 6)->forward(on.input({5, 3, 4}), {}, {}, lengths).output;
     }},
    {"GRUBidirectional",
     [](OneDevice& on) {
       return on.of<GRU>({5, 3, 4}, 4, 6, RecurrentOptions{.bidirectional = true});
     }},
    {"FusedRows",
     [](OneDevice& on) {
       return (*on.made(images_to_classes))(on.input({2, 2, 8, 8}));
     }},
    {"UNet",
     [](OneDevice& on) {
       const auto model = on.made([] { return unet({1, 8, 8}, 2, {.channels = 16, .levels = 2}); });
       return (*model)(on.input({1, 1, 8, 8}));
     }},
    {"Gpt",
     [](OneDevice& on) {
       const auto gpt = on.make<Gpt>(GptOptions{.vocabulary = 11,
                                                .context = 6,
                                                .width = 8,
                                                .depth = 2,
                                                .heads = 2,
                                                .dropout = 0.1,
                                                .recompute = true});
       return gpt->loss(Variable(on.integers({2, 6}, 11)), on.integers({2, 6}, 11));
     }},
};

class EveryLayer : public testing::TestWithParam<std::tuple<Use, Device>> {};

TEST_P(EveryLayer, EqualsTheHostsOnADevice) {
  const LayoutGuard as_on_a_device(ImageLayout::plain);
  const auto& [use, device] = GetParam();
  OneDevice host{Device{}};
  const auto expected = host.numbers(use.apply(host));
  for (const std::uint64_t seed : {1U, 2U}) {
    SimulatedRuntime::instance().set_seed(seed);
    std::vector<std::vector<double>> found;
    const bool runs = test::runs_on(device, [&, &use = use, device = device] {
      OneDevice there{device};
      found = there.numbers(use.apply(there));
    });
    EXPECT_EQ(runs, use.runs_on_gpus || device.type == DeviceType::sim);
    if (!runs) return;
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t t = 0; t < found.size(); ++t) {
      SCOPED_TRACE("tensor " + std::to_string(t) + ", seed " + std::to_string(seed));
      test::expect_like_host(device, found[t], expected[t], test::gpu_tolerance(DType::f32));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Nn, EveryLayer,
                         testing::Combine(testing::ValuesIn(uses),
                                          testing::ValuesIn(test::devices_to_test())),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" +
                                  std::string(name_of(std::get<1>(info.param).type));
                         });

class EveryLayerWithAStandIn : public testing::TestWithParam<Use> {};

TEST_P(EveryLayerWithAStandIn, RunsOnAGpuOrIsRefused) {
  const test::GpuStandIn gpu;
  OneDevice device{{DeviceType::sim, 0}};
  if (!GetParam().runs_on_gpus) {
    EXPECT_NE(test::message_of<ShapeError>([&] {
                static_cast<void>(device.numbers(GetParam().apply(device)));
              }).find(" has no kernel for a GPU, and got "),
              std::string::npos);
    return;
  }
  const auto found = device.numbers(GetParam().apply(device));
  OneDevice host{Device{}};
  const auto expected = host.numbers(GetParam().apply(host));
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t t = 0; t < found.size(); ++t) {
    ASSERT_EQ(found[t].size(), expected[t].size());
    for (std::size_t i = 0; i < found[t].size(); ++i)
      ASSERT_NEAR(found[t][i], expected[t][i], 1e-4 * std::max(1.0, std::abs(expected[t][i])));
  }
}

INSTANTIATE_TEST_SUITE_P(Nn, EveryLayerWithAStandIn, testing::ValuesIn(uses),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(GptSampler, ChoosesTheHostsTokensOnADevice) {
  const auto text = [](Device where) {
    OneDevice on(where);
    const auto gpt = on.make<Gpt>(
        GptOptions{.vocabulary = 11, .context = 6, .width = 8, .depth = 2, .heads = 2});
    const std::vector<std::int64_t> begin{1, 2, 3};
    GptSampler sampler(gpt, begin, {.seed = 4});
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 9; ++i) tokens.push_back(sampler.next());
    return tokens;
  };
  EXPECT_EQ(text({DeviceType::sim, 0}), text({}));
}

TEST(Categorical, DrawsTheHostsSamplesOnADevice) {
  const auto drawn = [](Device where) {
    OneDevice on(where);
    const auto categorical = Categorical::from_logits(on.input({20, 5}));
    const Tensor sample = categorical.sample({.seed = 2});
    EXPECT_EQ(sample.device(), where);
    return std::pair(sample.to_vector<std::int64_t>(),
                     categorical.log_prob(sample).data().to_vector<float>());
  };
  EXPECT_EQ(drawn({DeviceType::sim, 0}), drawn({}));
}

}  // namespace
}  // namespace lockstep::nn
