#include <lockstep/nn/models.hpp>

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

std::shared_ptr<Module> make_whole(const ModelOptions& options, const Shape& sample,
                                   std::int64_t outputs, Head head) {
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
  }
  throw Error("internal error: unknown model kind");
}

}  // namespace

std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                   std::int64_t outputs, Head head) {
  auto model = make_whole(options, sample, outputs, head);
  freeze(*model, options.freeze);
  return model;
}

}  // namespace lockstep::nn
