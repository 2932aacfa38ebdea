#include <lockstep/deck/kinds.hpp>
#include <lockstep/nn/models.hpp>

namespace lockstep::nn {
namespace {

// Keys that several kinds have.

void declare_hidden_layers(DeckTable& table, ModelOptions& options, std::string_view norm_doc) {
  using Norm = MlpLayers::Norm;
  using Activation = MlpLayers::Activation;
  table.choice("norm", options.layers.norm,
               {{"none", Norm::none}, {"batch", Norm::batch}, {"layer", Norm::layer}}, norm_doc);
  table.choice("activation", options.layers.activation,
               {{"relu", Activation::relu},
                {"gelu", Activation::gelu},
                {"silu", Activation::silu},
                {"tanh", Activation::tanh},
                {"sigmoid", Activation::sigmoid}},
               "function behind each hidden layer");
}

void declare_width_depth_and_heads(DeckTable& table, TransformerOptions& options,
                                   std::string_view depth_doc) {
  table.key("width", options.width, {.doc = "features of a token", .min = 1});
  table.key("depth", options.depth, {.doc = depth_doc, .min = 1, .max = 1e4});
  table.key("heads", options.heads, {.doc = "attention heads, a divisor of width", .min = 1});
}

// The keys of each kind.

void declare_convnet(DeckTable& table, ModelOptions& options) {
  table.key("dropout", options.dropout,
            {.doc = "probability of each dropout layer", .min = 0.0, .max = 0.99});
}

void declare_mlp(DeckTable& table, ModelOptions& options) {
  table.key("hidden", options.hidden,
            {.doc = "features of each hidden layer, of at most 10,000", .min = 1, .max = 1e6});
  declare_hidden_layers(table, options, "normalisation behind each hidden layer");
  table.key("hidden_dropout", options.layers.dropout,
            {.doc = "probability of dropout behind each hidden layer", .min = 0.0, .max = 0.99});
}

void declare_resnet18(DeckTable&, ModelOptions&) {}

void declare_transformer(DeckTable& table, ModelOptions& options) {
  TransformerOptions& t = options.transformer;
  declare_width_depth_and_heads(table, t, "encoder layers");
  table.key("vocabulary", t.vocabulary,
            {.doc = "samples are indices below this, each looked up (with data.indices = true); 0: "
                    "they are numbers",
             .min = 0});
  table.key("feedforward", t.feedforward,
            {.doc = "features inside each feed-forward part; 0: 4 width", .min = 0});
  table.key("patch", t.patch,
            {.doc = "height and width of a patch, or one for both; divisors of the image's, 0: all "
                    "of it; a sequence [T, F] has [1, 0]",
             .unit = "pixels",
             .min = 0});
  table.key("encoder_dropout", t.encoder_dropout,
            {.doc = "probability of each dropout layer of the encoder", .min = 0.0, .max = 0.99});
}

void declare_gpt(DeckTable& table, ModelOptions& options) {
  declare_width_depth_and_heads(table, options.transformer, "blocks");
  table.key("context", options.context,
            {.doc = "positions, the most tokens that are seen at a time; 0: data.context",
             .unit = "tokens",
             .min = 0});
  table.key("residual_dropout", options.residual_dropout,
            {.doc = "probability of dropout behind the embeddings and the two projections of each "
                    "block",
             .min = 0.0,
             .max = 0.99});
  table.key("recompute", options.recompute,
            {.doc = "keep only each block's input and compute the block again in backward: less "
                    "memory, a third more arithmetic, the same bits"});
}

void declare_unet(DeckTable& table, ModelOptions& options) {
  table.key("channels", options.unet.channels,
            {.doc = "channels at full resolution, twice as many a level", .min = 1});
  table.key("levels", options.unet.levels,
            {.doc = "halvings of height, width and depth; 0: a row of convolutions",
             .min = 0,
             .max = 10});
  declare_hidden_layers(table, options,
                        "normalisation behind each hidden layer; layer is GroupNorm of one group");
}

}  // namespace

void declare(DeckTable& table, ModelOptions& options) {
  using Kind = ModelOptions::Kind;
  declare_kind(
      table, options, &ModelOptions::kind,
      "which network; gpt learns tokens (data.kind), unet maps fields to fields, the "
      "others take images or numbers",
      {{"convnet", Kind::convnet, "two convolutions and two linear layers", declare_convnet},
       {"mlp", Kind::mlp, "linear layers", declare_mlp},
       {"resnet18", Kind::resnet18, "ResNet-18 for small images", declare_resnet18},
       {"transformer", Kind::transformer, "an encoder of patches or of a sequence",
        declare_transformer},
       {"gpt", Kind::gpt, "GPT-2, a decoder of tokens", declare_gpt},
       {"unet", Kind::unet, "convolutions that halve the field and double it again",
        declare_unet}});
  table.key("freeze", options.freeze,
            {.doc = "patterns of parameters' names, such as [\"layer1.*\"], that are not trained"});
}

}  // namespace lockstep::nn
