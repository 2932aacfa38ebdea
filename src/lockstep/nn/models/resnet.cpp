#include <lockstep/nn/models/resnet.hpp>

#include <string>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {
namespace {

/// A convolution as torchvision's ResNets have them: no bias, and an output of size H / stride.
std::shared_ptr<Conv2d> convolution(std::int64_t in, std::int64_t out, std::int64_t kernel,
                                    std::int64_t stride) {
  const std::int64_t padding = kernel / 2;
  const Conv2dOptions options{.stride = stride, .padding = padding};
  auto conv = std::make_shared<Conv2d>(in, out, kernel, options, false);
  const Tensor& weight = conv->weight().data();
  weight.copy_from(kaiming_normal_fan_out(weight.shape()).to(weight.dtype()));
  return conv;
}

/// relu(bn2(conv2(relu(bn1(conv1(x))))) + downsample(x)), where there is no downsample x itself.
class BasicBlock : public Module {
 public:
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv1_(register_module("conv1", convolution(in, out, 3, stride))),
        bn1_(register_module("bn1", std::make_shared<BatchNorm2d>(out))),
        conv2_(register_module("conv2", convolution(out, out, 3, 1))),
        bn2_(register_module("bn2", std::make_shared<BatchNorm2d>(out))) {
    if (stride == 1 && in == out) return;
    downsample_ = register_module(
        "downsample", std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
                          convolution(in, out, 1, stride), std::make_shared<BatchNorm2d>(out)}));
  }

  Variable forward(const Variable& x) override {
    if (!ForwardHook::current()) return from_channel_blocks(forward_in_blocks(x));
    const Variable y = (*bn2_)((*conv2_)(relu((*bn1_)((*conv1_)(x)))));
    return relu(y + (downsample_ ? (*downsample_)(x) : x));
  }

  /// As forward, but x may be in channel blocks, and so may be the result.
  Variable forward_in_blocks(const Variable& x) {
    const Variable inner = bn1_->forward(forward_blocked(*conv1_, x), {}, true);
    const Variable shortcut = downsample_ ? forward_blocked(*downsample_, x) : x;
    return bn2_->forward(forward_blocked(*conv2_, inner), shortcut, true);
  }

 private:
  std::shared_ptr<Conv2d> conv1_;
  std::shared_ptr<BatchNorm2d> bn1_;
  std::shared_ptr<Conv2d> conv2_;
  std::shared_ptr<BatchNorm2d> bn2_;
  std::shared_ptr<Sequential> downsample_;
};

[[maybe_unused]] const bool basic_block_is_known =
    add_blocked_layer(typeid(BasicBlock), [](Module& module, const Variable& x) {
      return static_cast<BasicBlock&>(module).forward_in_blocks(x);
    });

}  // namespace

std::shared_ptr<Sequential> resnet18(const Shape& image, std::int64_t outputs, Head head) {
  if (image.dims() != 3 || image[1] < 8 || image[2] < 8) {
    throw InputError(
        "model resnet18 takes images of shape [channels, height, width] of at least 8 x 8 pixels, "
        "not samples of shape " +
        to_string(image) + ". Choose another model.kind or other data.");
  }
  auto model = std::make_shared<Sequential>();
  model->push_back("conv1", convolution(image[0], 64, 3, 1));
  model->push_back("bn1", std::make_shared<BatchNorm2d>(64));
  model->push_back("relu", std::make_shared<ReLU>());
  std::int64_t channels = 64;
  for (int layer = 1; layer <= 4; ++layer) {
    const std::int64_t wider = layer == 1 ? channels : 2 * channels;
    model->push_back("layer" + std::to_string(layer),
                     std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
                         std::make_shared<BasicBlock>(channels, wider, layer == 1 ? 1 : 2),
                         std::make_shared<BasicBlock>(wider, wider, 1)}));
    channels = wider;
  }
  model->push_back("avgpool", std::make_shared<AdaptiveAvgPool2d>(1));
  model->push_back("flatten", std::make_shared<Flatten>());
  model->push_back("fc", std::make_shared<Linear>(channels, outputs));
  if (head == Head::log_probabilities) {
    model->push_back("log_softmax", std::make_shared<LogSoftmax>());
  }
  return model;
}

std::shared_ptr<Module> ResNet18Options::make(const ModelFit& fit) {
  fit.expect_numbers();
  return resnet18(fit.sample, fit.outputs(), fit.head);
}

}  // namespace lockstep::nn
