#include <lockstep/nn/models/transformer.hpp>

#include <string>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/transformer.hpp>

namespace lockstep::nn {
namespace {

/// x[N,C,H,W] -> [N, tokens, width]; parameters weight[width, C, patch, patch], bias[width] as
/// Conv2d(C, width, patch, stride = patch) has them. Patches do not overlap, so that the
/// convolution is one matrix product.
class PatchEmbed : public Module {
 public:
  PatchEmbed(std::int64_t channels, std::int64_t width, std::int64_t patch) : patch_(patch) {
    const Shape shape{width, channels, patch, patch};
    weight_ = register_parameter("weight", default_weight(shape));
    bias_ = register_parameter("bias", default_bias(width, channels * patch * patch));
  }

  Variable forward(const Variable& x) override {
    const Shape& in = x.shape();
    const std::int64_t rows = in[2] / patch_, columns = in[3] / patch_;
    const std::int64_t pixels = in[1] * patch_ * patch_;
    const Variable patches =
        permute(reshape(x, {in[0], in[1], rows, patch_, columns, patch_}), {0, 2, 4, 1, 3, 5});
    return linear(reshape(patches, {in[0], rows * columns, pixels}),
                  reshape(weight_, {weight_.shape()[0], pixels}), bias_);
  }

 private:
  std::int64_t patch_;
  Variable weight_, bias_;
};

class Transformer : public Module {
 public:
  Transformer(const Shape& image, std::int64_t outputs, const TransformerOptions& options,
              Head head)
      : image_(image), log_probabilities_(head == Head::log_probabilities) {
    const std::int64_t width = options.width;
    const std::int64_t tokens = (image[1] / options.patch) * (image[2] / options.patch);
    const std::int64_t feedforward = options.feedforward > 0 ? options.feedforward : 4 * width;
    patch_embed_ = register_module("patch_embed",
                                   std::make_shared<PatchEmbed>(image[0], width, options.patch));
    pos_embedding_ = register_parameter("pos_embedding", normal({1, tokens, width}, 0.02));
    encoder_ = register_module(
        "encoder", std::make_shared<TransformerEncoder>(options.depth, width, options.heads,
                                                        feedforward, options.encoder_dropout));
    head_ = register_module("head", std::make_shared<Linear>(width, outputs));
  }

  Variable forward(const Variable& x) override {
    const Shape& in = x.shape();
    if (in.dims() != 4 || Shape{in[1], in[2], in[3]} != image_) {
      throw ShapeError("this transformer takes [N, ...] of images " + to_string(image_) + ", not " +
                       describe(x.data()));
    }
    const Variable tokens = (*patch_embed_)(x) + pos_embedding_;
    const Variable y = (*head_)(mean((*encoder_)(tokens), {1}));
    return log_probabilities_ ? log_softmax(y) : y;
  }

 private:
  Shape image_;
  bool log_probabilities_;
  Variable pos_embedding_;
  std::shared_ptr<Module> patch_embed_, encoder_, head_;
};

}  // namespace

std::shared_ptr<Module> transformer(const Shape& image, std::int64_t outputs,
                                    const TransformerOptions& options, Head head) {
  expect_positive("model transformer", "patch", options.patch);
  expect_positive("model transformer", "heads", options.heads);
  expect_positive("model transformer", "width", options.width);
  if (image.dims() != 3 || image.numel() == 0 || image[1] % options.patch != 0 ||
      image[2] % options.patch != 0) {
    throw InputError(
        "model transformer takes images of shape [channels, height, width] that divide into "
        "patches of " +
        std::to_string(options.patch) + " x " + std::to_string(options.patch) +
        " pixels, not samples of shape " + to_string(image) +
        ". Choose another model.patch, another model.kind or other data.");
  }
  if (options.width % options.heads != 0) {
    throw InputError("model transformer: model.heads (" + std::to_string(options.heads) +
                     ") must divide model.width (" + std::to_string(options.width) + ")");
  }
  return std::make_shared<Transformer>(image, outputs, options, head);
}

}  // namespace lockstep::nn
