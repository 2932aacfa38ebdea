#include <lockstep/nn/models.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep::nn {

namespace {

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
