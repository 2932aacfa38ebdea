#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>

namespace lockstep::nn {

void declare(DeckTable& table, ModelOptions& options) {
  using Kind = ModelOptions::Kind;
  table.choice("kind", options.kind,
               {{"convnet", Kind::convnet},
                {"mlp", Kind::mlp},
                {"resnet18", Kind::resnet18},
                {"transformer", Kind::transformer},
                {"gpt", Kind::gpt},
                {"unet", Kind::unet}},
               "which network; gpt learns tokens (data.kind), unet maps fields to fields, the "
               "others take images or numbers");
  table.key("dropout", options.dropout,
            {.doc = "probability of each dropout layer (convnet)", .min = 0.0, .max = 0.99});
  table.key(
      "hidden", options.hidden,
      {.doc = "features of each hidden layer, of at most 10,000 (mlp)", .min = 1, .max = 1e6});
  using Norm = MlpLayers::Norm;
  using Activation = MlpLayers::Activation;
  table.choice(
      "norm", options.layers.norm,
      {{"none", Norm::none}, {"batch", Norm::batch}, {"layer", Norm::layer}},
      "normalisation behind each hidden layer (mlp, unet: layer is GroupNorm of one group)");
  table.choice("activation", options.layers.activation,
               {{"relu", Activation::relu},
                {"gelu", Activation::gelu},
                {"silu", Activation::silu},
                {"tanh", Activation::tanh},
                {"sigmoid", Activation::sigmoid}},
               "function behind each hidden layer (mlp, unet)");
  table.key(
      "hidden_dropout", options.layers.dropout,
      {.doc = "probability of dropout behind each hidden layer (mlp)", .min = 0.0, .max = 0.99});
  table.key("channels", options.unet.channels,
            {.doc = "channels at full resolution, twice as many a level (unet)", .min = 1});
  table.key("levels", options.unet.levels,
            {.doc = "halvings of height, width and depth; 0: a row of convolutions (unet)",
             .min = 0,
             .max = 10});
  TransformerOptions& t = options.transformer;
  table.key("width", t.width, {.doc = "features of a token (transformer, gpt)", .min = 1});
  table.key(
      "vocabulary", t.vocabulary,
      {.doc = "samples are indices below this, each looked up (transformer, with data.indices "
              "= true); 0: they are numbers",
       .min = 0});
  table.key("depth", t.depth,
            {.doc = "encoder layers (transformer) or blocks (gpt)", .min = 1, .max = 1e4});
  table.key("heads", t.heads,
            {.doc = "attention heads, a divisor of width (transformer, gpt)", .min = 1});
  table.key("feedforward", t.feedforward,
            {.doc = "features inside each feed-forward part; 0: 4 width (transformer)", .min = 0});
  table.key(
      "patch", t.patch,
      {.doc = "height and width of a patch, or one for both; divisors of the image's, 0: all of "
              "it; a sequence [T, F] has [1, 0] (transformer)",
       .unit = "pixels",
       .min = 0});
  table.key("encoder_dropout", t.encoder_dropout,
            {.doc = "probability of each dropout layer of the encoder (transformer)",
             .min = 0.0,
             .max = 0.99});
  table.key("context", options.context,
            {.doc = "positions, the most tokens that are seen at a time; 0: data.context (gpt)",
             .unit = "tokens",
             .min = 0});
  table.key("residual_dropout", options.residual_dropout,
            {.doc = "probability of dropout behind the embeddings and the two projections of each "
                    "block (gpt)",
             .min = 0.0,
             .max = 0.99});
  table.key("recompute", options.recompute,
            {.doc = "keep only each block's input and compute the block again in backward: less "
                    "memory, a third more arithmetic, the same bits (gpt)"});
  table.key("freeze", options.freeze,
            {.doc = "patterns of parameters' names, such as [\"layer1.*\"], that are not trained"});
}

}  // namespace lockstep::nn
