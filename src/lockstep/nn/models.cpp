#include <lockstep/nn/models.hpp>

#include <algorithm>
#include <span>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep::nn {

namespace {

std::shared_ptr<Module> gpt(const ModelOptions& options, const Shape& sample,
                            std::int64_t outputs) {
  const std::int64_t tokens = sample.dims() == 1 ? sample[0] : 0;
  const std::int64_t context = options.context > 0 ? options.context : tokens;
  if (tokens == 0 || tokens > context) {
    throw InputError("model gpt takes samples of at most " + std::to_string(context) +
                     " tokens (model.context), not of shape " + to_string(sample) +
                     ". Change data.context or model.context.");
  }
  return std::make_shared<Gpt>(GptOptions{.vocabulary = outputs,
                                          .context = context,
                                          .width = options.transformer.width,
                                          .depth = options.transformer.depth,
                                          .heads = options.transformer.heads,
                                          .dropout = options.residual_dropout,
                                          .recompute = options.recompute});
}

/// Of fields `output`, [C, ...] or, of one channel, [...] of the sample's extents.
std::shared_ptr<Module> field_model(const ModelOptions& options, const Shape& sample,
                                    const Shape& output, Head head) {
  const Shape extents(std::span(sample.begin() + (sample.dims() > 0 ? 1 : 0), sample.end()));
  const std::int64_t channels = output.dims() == sample.dims() ? output[0] : 1;
  if (!std::ranges::equal(extents, std::span(output.end() - std::min(output.dims(), extents.dims()),
                                             output.end())) ||
      output.numel() != channels * extents.numel() || head == Head::log_probabilities) {
    throw InputError("model unet maps fields to fields of the same extents, not samples " +
                     to_string(sample) + " to " +
                     (head == Head::log_probabilities ? "classes" : to_string(output)) +
                     ". Choose another model.kind or other data.");
  }
  return unet(sample, head == Head::gaussian ? 2 * channels : channels, options.unet,
              options.layers);
}

std::shared_ptr<Module> make_whole(const ModelOptions& options, const Shape& sample,
                                   const Shape& output, Head head) {
  const std::int64_t outputs = output.numel() * (head == Head::gaussian ? 2 : 1);
  switch (options.kind) {
    case ModelOptions::Kind::convnet:
      return convnet(sample, outputs, options.dropout, head);
    case ModelOptions::Kind::mlp:
      return mlp(sample, outputs, options.hidden, head, options.layers);
    case ModelOptions::Kind::resnet18:
      return resnet18(sample, outputs, head);
    case ModelOptions::Kind::transformer:
      return transformer(sample, outputs, options.transformer, head);
    case ModelOptions::Kind::gpt:
      return gpt(options, sample, outputs);
    case ModelOptions::Kind::unet:
      return field_model(options, sample, output, head);
  }
  throw Error("internal error: unknown model kind");
}

}  // namespace

std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                   const Shape& output, Head head) {
  auto model = make_whole(options, sample, output, head);
  freeze(*model, options.freeze);
  return model;
}

}  // namespace lockstep::nn
