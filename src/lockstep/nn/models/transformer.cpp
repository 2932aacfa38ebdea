#include <lockstep/nn/models/transformer.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layered.hpp>
#include <lockstep/nn/layers/embedding.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/module_list.hpp>

namespace lockstep::nn {
namespace {

/// The size of a patch, in pixels.
struct Patch {
  std::int64_t height, width;
  [[nodiscard]] std::int64_t pixels() const noexcept { return height * width; }
  [[nodiscard]] bool divides(const Shape& image) const noexcept {
    return height > 0 && width > 0 && image[1] % height == 0 && image[2] % width == 0;
  }
};

Patch patch_of(const std::vector<std::int64_t>& sides, const Shape& image) {
  const auto side = [&](std::size_t i, std::int64_t whole) {
    const std::int64_t given = sides[std::min(i, sides.size() - 1)];
    return given == 0 ? whole : given;
  };
  return {side(0, image[1]), side(1, image[2])};
}

/// x[N,C,H,W] -> [N, tokens, width]. The parameters weight[width, C, height, width of a patch] and
/// bias[width] are those of Conv2d(C, width, patch, stride = patch). Patches do not overlap, so the
/// convolution is one matrix product.
class PatchEmbed : public Module {
 public:
  PatchEmbed(std::int64_t channels, std::int64_t width, const Patch& patch) : patch_(patch) {
    const Shape shape{width, channels, patch.height, patch.width};
    weight_ = register_parameter("weight", default_weight(shape));
    bias_ = register_parameter("bias", default_bias(width, channels * patch.pixels()));
  }

  Variable forward(const Variable& x) override {
    const Shape& in = x.shape();
    const std::int64_t rows = in[2] / patch_.height, columns = in[3] / patch_.width;
    const std::int64_t pixels = in[1] * patch_.pixels();
    const Variable patches = permute(
        reshape(x, {in[0], in[1], rows, patch_.height, columns, patch_.width}), {0, 2, 4, 1, 3, 5});
    return linear(reshape(patches, {in[0], rows * columns, pixels}),
                  reshape(weight_, {weight_.shape()[0], pixels}), bias_);
  }

 private:
  Patch patch_;
  Variable weight_, bias_;
};

/// x[N,F] -> [N, F, width] by weight[F, width].
class FeatureEmbed : public Module {
 public:
  FeatureEmbed(std::int64_t features, std::int64_t width)
      : weight_(register_parameter("weight", normal({features, width}, 1.0))) {}

  Variable forward(const Variable& x) override {
    return reshape(x, {x.shape()[0], x.shape()[1], 1}) * weight_;
  }

 private:
  Variable weight_;
};

/// The first layer: x -> tokens, with their positions.
class Front {
 public:
  Front() = default;
  Front(const Shape& sample, std::shared_ptr<Module> embed, Variable pos_embedding)
      : sample_(sample), embed_(std::move(embed)), pos_embedding_(std::move(pos_embedding)) {}

  Variable operator()(const Variable& x) const {
    const Shape& in = x.shape();
    if (in.dims() != sample_.dims() + 1 || in.numel() != in[0] * sample_.numel() ||
        !std::equal(sample_.begin(), sample_.end(), in.begin() + 1)) {
      throw ShapeError("this transformer takes [N, ...] of samples " + to_string(sample_) +
                       ", not " + describe(x.data()));
    }
    return (*embed_)(x) + pos_embedding_;
  }

 private:
  Shape sample_;
  std::shared_ptr<Module> embed_;
  Variable pos_embedding_;
};

/// The last one: tokens -> outputs.
class Back {
 public:
  Back() = default;
  Back(std::shared_ptr<Module> head, bool log_probabilities)
      : head_(std::move(head)), log_probabilities_(log_probabilities) {}

  Variable operator()(const Variable& tokens) const {
    const Variable y = (*head_)(mean(tokens, {1}));
    return log_probabilities_ ? log_softmax(y) : y;
  }

 private:
  std::shared_ptr<Module> head_;
  bool log_probabilities_ = false;
};

/// Some of a Transformer's layers, under their names in it.
class TransformerPart : public Module {
 public:
  void add_front(const Front& front, const std::string& embed_name,
                 const std::shared_ptr<Module>& embed, const Variable& pos_embedding) {
    const bool is_trained = pos_embedding.requires_grad();
    pos_embedding.set_requires_grad(true);  // or it cannot be shared
    register_parameter("pos_embedding", pos_embedding);
    pos_embedding.set_requires_grad(is_trained);
    register_module(embed_name, embed);
    front_ = front;
  }
  void add_block(const std::string& name, const std::shared_ptr<Module>& block) {
    if (!blocks_) {
      blocks_ = std::make_shared<ModuleDict>();
      encoder().insert("layers", blocks_);
    }
    blocks_->insert(name, block);
    middle_.push_back(block);
  }
  void add_back(const Back& back, const std::shared_ptr<Module>& norm,
                const std::shared_ptr<Module>& head) {
    encoder().insert("norm", norm);
    middle_.push_back(norm);
    register_module("head", head);
    back_ = back;
  }
  Variable forward(const Variable& x) override {
    Variable y = front_ ? (*front_)(x) : x;
    for (const auto& layer : middle_) y = (*layer)(y);
    return back_ ? (*back_)(y) : y;
  }

 private:
  ModuleDict& encoder() {
    if (!encoder_) encoder_ = register_module("encoder", std::make_shared<ModuleDict>());
    return *encoder_;
  }

  std::optional<Front> front_;
  std::shared_ptr<ModuleDict> encoder_, blocks_;
  std::vector<std::shared_ptr<Module>> middle_;
  std::optional<Back> back_;
};

class Transformer : public Module, public Layered {
 public:
  Transformer(const Shape& sample, std::int64_t outputs, const TransformerOptions& options,
              Head head) {
    const std::int64_t width = options.width;
    std::int64_t tokens = sample[0];
    const std::int64_t feedforward = options.feedforward > 0 ? options.feedforward : 4 * width;
    if (sample.dims() == 3) {
      const Patch patch = patch_of(options.patch, sample);
      tokens = (sample[1] / patch.height) * (sample[2] / patch.width);
      embed("patch_embed", std::make_shared<PatchEmbed>(sample[0], width, patch));
    } else if (options.vocabulary > 0) {
      embed("token_embed", std::make_shared<Embedding>(options.vocabulary, width));
    } else {
      embed("feature_embed", std::make_shared<FeatureEmbed>(tokens, width));
    }
    pos_embedding_ = register_parameter("pos_embedding", normal({1, tokens, width}, 0.02));
    encoder_ = register_module(
        "encoder", std::make_shared<TransformerEncoder>(options.depth, width, options.heads,
                                                        feedforward, options.encoder_dropout));
    head_ = register_module("head", std::make_shared<Linear>(width, outputs));
    front_ = Front(sample, embed_, pos_embedding_);
    back_ = Back(head_, head == Head::log_probabilities);
  }

  Variable forward(const Variable& x) override { return back_((*encoder_)(front_(x))); }

  /// The embedding, each of the encoder's layers, and its norm with the head.
  [[nodiscard]] std::size_t layer_count() const override { return blocks().size() + 2; }
  [[nodiscard]] std::shared_ptr<Module> layers(std::size_t first, std::size_t end) const override {
    auto part = std::make_shared<TransformerPart>();
    for (std::size_t i = first; i < end; ++i) {
      if (i == 0) {
        part->add_front(front_, embed_name_, embed_, pos_embedding_);
      } else if (i <= blocks().size()) {
        const auto& [name, block] = blocks()[i - 1];
        part->add_block(name, block);
      } else {
        part->add_back(back_, encoder_->children().back().second, head_);
      }
    }
    return part;
  }

 private:
  void embed(const std::string& name, std::shared_ptr<Module> module) {
    embed_name_ = name;
    embed_ = register_module(name, std::move(module));
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& blocks() const {
    return encoder_->children().front().second->children();
  }

  std::string embed_name_;
  Variable pos_embedding_;
  std::shared_ptr<Module> embed_, encoder_, head_;
  Front front_;
  Back back_;
};

}  // namespace

std::shared_ptr<Module> transformer(const Shape& sample, std::int64_t outputs,
                                    const TransformerOptions& options, Head head) {
  expect_positive("model transformer", "heads", options.heads);
  expect_positive("model transformer", "width", options.width);
  if (options.patch.empty() || options.patch.size() > 2)
    throw InputError("model transformer: model.patch is one side length, or height and width");
  const bool row = sample.dims() == 1, image = sample.dims() == 3;
  if (options.vocabulary > 0 && !(row && sample.numel() > 0)) {
    throw InputError("model transformer looks up samples [tokens], not of shape " +
                     to_string(sample) + ". Leave out model.vocabulary or choose other data.");
  }
  if (sample.numel() == 0 || !(row || image) ||
      (image && !patch_of(options.patch, sample).divides(sample))) {
    const std::string height = std::to_string(options.patch.front()),
                      width = std::to_string(options.patch.back());
    throw InputError(
        "model transformer takes rows [features], or images [channels, height, width] that divide "
        "into patches of " +
        height + " x " + width + " pixels, not samples of shape " + to_string(sample) +
        ". Choose another model.patch (0: the whole side), another model.kind or other data.");
  }
  if (options.width % options.heads != 0) {
    throw InputError("model transformer: model.heads (" + std::to_string(options.heads) +
                     ") must divide model.width (" + std::to_string(options.width) + ")");
  }
  return std::make_shared<Transformer>(sample, outputs, options, head);
}

std::shared_ptr<Module> TransformerOptions::make(const ModelFit& fit) const {
  if (vocabulary == 0) fit.expect_numbers();
  if (vocabulary > 0 && fit.has_numbers()) {
    throw InputError(
        "model.vocabulary says that samples are indices, but they are numbers. Set data.indices = "
        "true, or leave out model.vocabulary.");
  }
  return transformer(fit.sample, fit.outputs(), *this, fit.head);
}

void declare(DeckTable& table, TransformerOptions& options) {
  declare_width_depth_and_heads(table, options, "encoder layers");
  table.key(
      "vocabulary", options.vocabulary,
      {.doc =
           "data.indices = true only: number of indices of the embedding; 0: samples are numbers",
       .min = 0});
  table.key("feedforward", options.feedforward,
            {.doc = "features inside each feed-forward part; 0: 4 * width", .min = 0});
  table.key("patch", options.patch,
            {.doc = "height and width of a patch, or one for both: divisors of the image's; 0: all "
                    "of it; [1, 0] for a sequence [T, F]",
             .unit = "pixels",
             .min = 0});
  table.key("encoder_dropout", options.encoder_dropout,
            {.doc = "dropout probability in the encoder", .min = 0.0, .max = 0.99});
}

}  // namespace lockstep::nn
