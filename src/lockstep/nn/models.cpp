#include <lockstep/nn/models.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/resnet.hpp>

namespace lockstep::nn {

std::shared_ptr<Module> make_model(const ModelOptions& options, const Shape& sample,
                                   std::int64_t outputs, Head head) {
  switch (options.kind) {
    case ModelOptions::Kind::convnet:
      return convnet(sample, outputs, options.dropout, head);
    case ModelOptions::Kind::mlp:
      return mlp(sample, outputs, options.hidden, head);
    case ModelOptions::Kind::resnet18:
      return resnet18(sample, outputs, head);
    case ModelOptions::Kind::transformer:
      return transformer(sample, outputs, options.transformer, head);
  }
  throw Error("internal error: unknown model kind");
}

}  // namespace lockstep::nn
