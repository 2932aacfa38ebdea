#include <lockstep/nn/models/resnet.hpp>

#include <array>
#include <string>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {
namespace {

/// A convolution without bias; the output has size H / stride.
std::shared_ptr<Conv2d> convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                    std::int64_t stride) {
  const std::int64_t padding = kernel / 2;
  const Conv2dOptions options{.stride = stride, .padding = padding};
  auto conv = std::make_shared<Conv2d>(in, out, kernel, options, false);
  const Tensor& weight = conv->weight().data();
  weight.copy_from(kaiming_normal_fan_out(weight.shape()).to(weight.dtype()));
  return conv;
}

/// The common part of both blocks: relu(convolutions(x) + shortcut(x)). The shortcut is x itself or
/// `downsample`. Each convolution is followed by a BatchNorm and, except for the last, a ReLU.
class Block : public Module {
 public:
  Variable forward(const Variable& x) override {
    if (!ForwardHook::is_on_parts_of(*this)) return from_channel_blocks(forward_in_blocks(x));
    Variable y = x;
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) y = relu(stages_[i](y));
    y = stages_.back()(y);
    return relu(y + (downsample_ ? (*downsample_)(x) : x));
  }

  /// Like forward, but x and the result may be in channel blocks.
  Variable forward_in_blocks(const Variable& x) {
    Variable y = x;
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
      y = stages_[i].norm->forward(forward_blocked(*stages_[i].conv, y), {}, true);
    }
    const Variable shortcut = downsample_ ? forward_blocked(*downsample_, x) : x;
    return stages_.back().norm->forward(forward_blocked(*stages_.back().conv, y), shortcut, true);
  }

 protected:
  void add_stage(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const std::string number = std::to_string(stages_.size() + 1);
    stages_.push_back({register_module("conv" + number, convolution(in, out, kernel, stride)),
                       register_module("bn" + number, std::make_shared<BatchNorm2d>(out))});
  }

  void finish(std::int64_t in, std::int64_t out, std::int64_t stride,
              const ResNetOptions& options) {
    if (options.zero_init_residual) stages_.back().norm->weight().data().zero();
    if (stride == 1 && in == out) return;
    downsample_ = register_module(
        "downsample", std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
                          convolution(in, out, 1, stride), std::make_shared<BatchNorm2d>(out)}));
  }

 private:
  struct Stage {
    std::shared_ptr<Conv2d> conv;
    std::shared_ptr<BatchNorm2d> norm;

    Variable operator()(const Variable& x) const { return (*norm)((*conv)(x)); }
  };

  std::vector<Stage> stages_;
  std::shared_ptr<Sequential> downsample_;
};

/// Two convolutions of 3 x 3 with `width` channels.
struct BasicBlock : Block {
  static constexpr std::int64_t expansion = 1;

  BasicBlock(std::int64_t in, std::int64_t width, std::int64_t stride,
             const ResNetOptions& options) {
    add_stage(in, width, 3, stride);
    add_stage(width, width, 3, 1);
    finish(in, width, stride, options);
  }
};

/// 1 x 1 to `width` channels, 3 x 3, 1 x 1 to four times as many.
struct Bottleneck : Block {
  static constexpr std::int64_t expansion = 4;

  Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride,
             const ResNetOptions& options) {
    add_stage(in, width, 1, 1);
    add_stage(width, width, 3, stride);
    add_stage(width, expansion * width, 1, 1);
    finish(in, expansion * width, stride, options);
  }
};

template <class Kind>
bool add_blocked_block() {
  return add_blocked_layer(typeid(Kind), [](Module& module, const Variable& x) {
    return static_cast<Kind&>(module).forward_in_blocks(x);
  });
}

[[maybe_unused]] const bool blocks_are_known =
    add_blocked_block<BasicBlock>() && add_blocked_block<Bottleneck>();

/// Adds layer1 to layer4 with the given numbers of blocks; returns the channels of the last.
template <class Kind>
std::int64_t push_layers(Sequential& model, const std::array<int, 4>& blocks,
                         const ResNetOptions& options) {
  std::int64_t in = 64, width = 64;
  for (std::size_t layer = 0; layer < blocks.size(); ++layer, width *= 2) {
    auto row = std::make_shared<Sequential>();
    for (int block = 0; block < blocks[layer]; ++block) {
      const std::int64_t stride = block == 0 && layer > 0 ? 2 : 1;
      row->push_back(std::make_shared<Kind>(in, width, stride, options));
      in = Kind::expansion * width;
    }
    model.push_back("layer" + std::to_string(layer + 1), row);
  }
  return in;
}

void push_stem(Sequential& model, std::int64_t channels, ResNetOptions::Stem stem) {
  const bool large = stem == ResNetOptions::Stem::imagenet;
  model.push_back("conv1", convolution(channels, 64, large ? 7 : 3, large ? 2 : 1));
  model.push_back("bn1", std::make_shared<BatchNorm2d>(64));
  model.push_back("relu", std::make_shared<ReLU>());
  if (large) {
    model.push_back("maxpool", std::make_shared<MaxPool2d>(
                                   PoolOptions<2>{.kernel = 3, .stride = 2, .padding = 1}));
  }
}

/// layer1 to layer4 of the network of this depth.
std::int64_t push_layers_of(Sequential& model, int depth, const ResNetOptions& options) {
  switch (depth) {
    case 18:
      return push_layers<BasicBlock>(model, {2, 2, 2, 2}, options);
    case 34:
      return push_layers<BasicBlock>(model, {3, 4, 6, 3}, options);
    case 50:
      return push_layers<Bottleneck>(model, {3, 4, 6, 3}, options);
    case 101:
      return push_layers<Bottleneck>(model, {3, 4, 23, 3}, options);
    case 152:
      return push_layers<Bottleneck>(model, {3, 8, 36, 3}, options);
    default:
      throw InputError("resnet: there is no depth " + std::to_string(depth) +
                       "; there are 18, 34, 50, 101 and 152.");
  }
}

}  // namespace

std::shared_ptr<Sequential> resnet(int depth, const Shape& image, std::int64_t outputs, Head head,
                                   const ResNetOptions& options) {
  if (image.dims() != 3 || image[1] < 8 || image[2] < 8) {
    throw InputError("model resnet" + std::to_string(depth) +
                     " takes images of shape [channels, height, width] of at least 8 x 8 pixels, "
                     "not samples of shape " +
                     to_string(image) + ". Choose another model.kind or other data.");
  }
  auto model = std::make_shared<Sequential>();
  push_stem(*model, image[0], options.stem);
  const std::int64_t channels = push_layers_of(*model, depth, options);
  model->push_back("avgpool", std::make_shared<AdaptiveAvgPool2d>(1));
  model->push_back("flatten", std::make_shared<Flatten>());
  model->push_back("fc", std::make_shared<Linear>(channels, outputs));
  if (head == Head::log_probabilities) {
    model->push_back("log_softmax", std::make_shared<LogSoftmax>());
  }
  return model;
}

void declare(DeckTable& table, ResNetOptions& options) {
  using Stem = ResNetOptions::Stem;
  table.choice("stem", options.stem, {{"small", Stem::small}, {"imagenet", Stem::imagenet}},
               "first layers: small is 3 x 3 with stride 1, imagenet is 7 x 7 with stride 2 and a "
               "max-pool");
  table.key("zero_init_residual", options.zero_init_residual,
            {.doc = "the last BatchNorm of each block begins with weight 0"});
}

}  // namespace lockstep::nn
