#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <lockstep/nn/models/model_kind.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// Options of the model kind transformer.
struct TransformerOptions {
  std::int64_t width = 192;      ///< features of a token
  std::int64_t depth = 6;        ///< encoder layers
  std::int64_t heads = 3;        ///< must divide width
  std::int64_t vocabulary = 0;   ///< samples are indices below this; 0: they are numbers
  std::int64_t feedforward = 0;  ///< features inside each layer's feed-forward part; 0: 4 width
  /// Pixels: height and width, or one for both; 0: the whole image's. Must divide the image.
  std::vector<std::int64_t> patch{4};
  double encoder_dropout = 0.0;  ///< probability, in every dropout layer of the encoder

  [[nodiscard]] std::shared_ptr<Module> make(const ModelFit& fit) const;
};
void declare(DeckTable& table, TransformerOptions& options);
/// The keys `width`, `depth` and `heads`, which gpt has, too.
template <class Options>
void declare_width_depth_and_heads(DeckTable& table, Options& options, std::string_view depth_doc) {
  table.key("width", options.width, {.doc = "features of a token", .min = 1});
  table.key("depth", options.depth, {.doc = depth_doc, .min = 1, .max = 1e4});
  table.key("heads", options.heads, {.doc = "attention heads, a divisor of width", .min = 1});
}

/// A sample becomes tokens of `width` features; + pos_embedding[1, tokens, width]; encoder
/// (TransformerEncoder); mean over tokens; head. The tokens, by the sample's shape:
///   [C, H, W]  an image, cut into patches (Dosovitskiy et al. 2020, arXiv:2010.11929, with the
///              mean of the tokens in place of a class token): patch_embed, a convolution whose
///              stride is its kernel; a sequence of T steps of F numbers is an image [1, T, F]
///              with patches {1, 0}
///   [F]        a table's row: feature j is token x[j] feature_embed.weight[j], its bias the
///              position's (Gorishniy et al. 2021, arXiv:2106.11959)
///   [T]        with a vocabulary, i64: words of a text, each looked up in token_embed, an
///   Embedding
/// Throws InputError if sample, vocabulary, patch, width and heads do not fit.
[[nodiscard]] std::shared_ptr<Module> transformer(const Shape& sample, std::int64_t outputs,
                                                  const TransformerOptions& options = {},
                                                  Head head = Head::log_probabilities);

}  // namespace lockstep::nn
