#include <lockstep/nn/models/unet.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {
namespace {

/// The layers of a U-Net over volumes (if `volumes`) or images.
struct FieldLayers {
  bool volumes;
  MlpLayers layers;

  [[nodiscard]] std::shared_ptr<Module> convolution(std::int64_t in, std::int64_t out,
                                                    std::int64_t width) const {
    const std::int64_t p = width / 2;
    if (volumes) return std::make_shared<Conv3d>(in, out, width, Conv3dOptions{.padding = p});
    return std::make_shared<Conv2d>(in, out, width, Conv2dOptions{.padding = p});
  }
  [[nodiscard]] std::shared_ptr<Module> halved() const {
    if (volumes) return std::make_shared<MaxPool3d>(2);
    return std::make_shared<MaxPool2d>(2);
  }
  [[nodiscard]] std::shared_ptr<Module> doubled(std::int64_t in, std::int64_t out) const {
    if (volumes)
      return std::make_shared<ConvTranspose3d>(in, out, 2, ConvTransposeOptions<3>{.stride = 2});
    return std::make_shared<ConvTranspose2d>(in, out, 2, ConvTransposeOptions<2>{.stride = 2});
  }
  void push_norm(Sequential& block, std::int64_t channels, const std::string& at) const {
    using Norm = MlpLayers::Norm;
    if (layers.norm == Norm::layer)
      block.push_back("norm" + at, std::make_shared<GroupNorm>(1, channels));
    if (layers.norm != Norm::batch) return;
    if (volumes) return block.push_back("norm" + at, std::make_shared<BatchNorm3d>(channels));
    block.push_back("norm" + at, std::make_shared<BatchNorm2d>(channels));
  }
  void push_block(Sequential& block, std::int64_t in, std::int64_t out) const {
    for (const std::string at : {"1", "2"}) {
      block.push_back("conv" + at, convolution(at == "1" ? in : out, out, 3));
      push_norm(block, out, at);
      push_activation(block, layers.activation, at);
    }
  }
};

class UNet : public Module {
 public:
  UNet(const FieldLayers& make, std::int64_t in, std::int64_t out, const UNetOptions& options) {
    std::int64_t channels = options.channels;
    inc_ = std::make_shared<Sequential>();
    make.push_block(*inc_, in, channels);
    register_module("inc", inc_);
    for (std::int64_t level = 1; level <= options.levels; ++level, channels *= 2) {
      auto block = std::make_shared<Sequential>();
      block->push_back("pool", make.halved());
      make.push_block(*block, channels, 2 * channels);
      down_.push_back(register_module("down" + std::to_string(level), block));
    }
    for (std::int64_t level = 1; level <= options.levels; ++level, channels /= 2) {
      const std::string at = std::to_string(level);
      up_.push_back(register_module("up" + at, make.doubled(channels, channels / 2)));
      auto block = std::make_shared<Sequential>();
      make.push_block(*block, channels, channels / 2);
      merge_.push_back(register_module("merge" + at, block));
    }
    outc_ = register_module("outc", make.convolution(channels, out, 1));
  }

  Variable forward(const Variable& x) override {
    std::array<Variable, UNetOptions::most_levels> skips;
    Variable y = (*inc_)(x);
    for (std::size_t i = 0; i < down_.size(); ++i) {
      skips[i] = y;
      y = (*down_[i])(y);
    }
    for (std::size_t i = 0; i < up_.size(); ++i) {
      const std::array<Variable, 2> both{skips[up_.size() - 1 - i], (*up_[i])(y)};
      y = (*merge_[i])(concat(both, 1));
    }
    return (*outc_)(y);
  }

 private:
  std::shared_ptr<Sequential> inc_;
  std::vector<std::shared_ptr<Sequential>> down_, merge_;
  std::vector<std::shared_ptr<Module>> up_;
  std::shared_ptr<Module> outc_;
};

}  // namespace

std::shared_ptr<Module> unet(const Shape& sample, std::int64_t output_channels,
                             const UNetOptions& options) {
  if (sample.dims() != 3 && sample.dims() != 4) {
    throw InputError(
        "model unet takes images [channels, height, width] or volumes [channels, depth, "
        "height, width], not samples of shape " +
        to_string(sample) + ". Store one channel as [N, 1, ...], or use another model.kind.");
  }
  if (options.levels < 0 || options.levels > UNetOptions::most_levels)
    throw InputError("model unet has 0 to 10 levels, not " + std::to_string(options.levels) + ".");
  const std::int64_t factor = std::int64_t{1} << options.levels;
  for (int d = 1; d < sample.dims(); ++d) {
    if (sample[d] % factor == 0) continue;
    throw InputError("model unet halves the extents of " + to_string(sample) + " " +
                     std::to_string(options.levels) + " times (model.levels), but " +
                     std::to_string(sample[d]) + " is not a multiple of " + std::to_string(factor) +
                     ". Use fewer levels.");
  }
  if (options.layers.dropout > 0.0)
    throw InputError("model unet has no dropout: set model.hidden_dropout to 0.");
  return std::make_shared<UNet>(FieldLayers{sample.dims() == 4, options.layers}, sample[0],
                                output_channels, options);
}

/// Output fields of shape `fit.output`: [C, ...] or, with one channel, the sample's extents [...].
std::shared_ptr<Module> UNetOptions::make(const ModelFit& fit) const {
  fit.expect_numbers();
  const auto& [sample, output, head, input] = fit;
  const Shape extents(std::span(sample.begin() + (sample.dims() > 0 ? 1 : 0), sample.end()));
  const std::int64_t fields = output.dims() == sample.dims() ? output[0] : 1;
  if (!std::ranges::equal(extents, std::span(output.end() - std::min(output.dims(), extents.dims()),
                                             output.end())) ||
      output.numel() != fields * extents.numel() || head == Head::log_probabilities) {
    throw InputError("model unet maps fields to fields of the same extents, not samples " +
                     to_string(sample) + " to " +
                     (head == Head::log_probabilities ? "classes" : to_string(output)) +
                     ". Choose another model.kind or other data.");
  }
  return unet(sample, head == Head::gaussian ? 2 * fields : fields, *this);
}

void declare(DeckTable& table, UNetOptions& options) {
  table.key("channels", options.channels,
            {.doc = "channels at full resolution; doubled at each level", .min = 1});
  table.key("levels", options.levels,
            {.doc = "number of times height, width and depth are halved; 0: convolutions at full "
                    "resolution only",
             .min = 0,
             .max = 10});
  declare_norm_and_activation(
      table, options.layers,
      "normalization after each hidden layer; layer is GroupNorm of one group");
}

}  // namespace lockstep::nn
