#include <lockstep/nn/models.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/models/resnet.hpp>
#include <lockstep/nn/models/transformer.hpp>
#include <lockstep/nn/models/unet.hpp>
#include <lockstep/nn/name_pattern.hpp>

namespace lockstep::nn {

ModelKinds& model_kinds() {
  // In the order of the reference. The first is the default.
  static ModelKinds kinds([](ModelKinds& own) {
    add_model<ConvnetOptions>(own, "convnet", "two convolutions and two linear layers");
    add_model<MlpOptions>(own, "mlp", "linear layers");
    add_model<ResNet18Options>(own, "resnet18", "ResNet-18: basic blocks");
    add_model<ResNet34Options>(own, "resnet34", "ResNet-34: basic blocks");
    add_model<ResNet50Options>(own, "resnet50", "ResNet-50: bottleneck blocks");
    add_model<ResNet101Options>(own, "resnet101", "ResNet-101: bottleneck blocks");
    add_model<ResNet152Options>(own, "resnet152", "ResNet-152: bottleneck blocks");
    add_model<TransformerOptions>(own, "transformer",
                                  "transformer encoder over patches or a sequence");
    add_model<GptDeckOptions>(own, "gpt", "GPT-2, a decoder over tokens");
    add_model<UNetOptions>(own, "unet",
                           "U-Net: convolutions that halve the field's extents, then double them");
  });
  return kinds;
}

void declare(DeckTable& table, ModelOptions& options) {
  declare_kind(table, options.kind,
               "network; gpt takes tokens, unet fields, the others images or numbers");
  table.key("freeze", options.freeze,
            {.doc = "parameters that are not trained: name patterns such as [\"layer1.*\"]"});
}

void ModelFit::expect_numbers() const {
  if (!input || has_numbers()) return;
  throw InputError(
      "data.indices = true gives the model integers, which are looked up by model.kind = "
      "\"transformer\" with model.vocabulary = their number. Set both, leave data.indices out to "
      "train on them as numbers, or write a task whose model begins with an Embedding "
      "(docs/guide/write_an_app.md).");
}

std::shared_ptr<Module> make_model(const ModelOptions& options, const ModelFit& fit) {
  auto model = options.kind.make(fit);
  freeze(*model, options.freeze);
  return model;
}

}  // namespace lockstep::nn
