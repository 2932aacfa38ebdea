#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/nn/models/head.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

struct TransformerOptions {
  std::int64_t width = 192;      ///< features of a token
  std::int64_t depth = 6;        ///< encoder layers
  std::int64_t heads = 3;        ///< must divide width
  std::int64_t feedforward = 0;  ///< features inside each layer's feed-forward part; 0: 4 width
  std::int64_t patch = 4;        ///< pixels, must divide the image's height and width
  double encoder_dropout = 0.0;  ///< probability, in every dropout layer of the encoder
};

/// A classifier of images [N, channels, H, W] cut into patches (Dosovitskiy et al. 2020,
/// arXiv:2010.11929, with the mean of the tokens in place of a class token): patch_embed, a
/// convolution whose stride is its kernel; + pos_embedding[1, tokens, width]; encoder
/// (TransformerEncoder); mean over tokens; head. Throws InputError if image, patch, width and heads
/// do not fit.
[[nodiscard]] std::shared_ptr<Module> transformer(const Shape& image, std::int64_t outputs,
                                                  const TransformerOptions& options = {},
                                                  Head head = Head::log_probabilities);

}  // namespace lockstep::nn
