#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/base/philox.hpp>
#include <lockstep/nn/models/gpt.hpp>

namespace lockstep::nn {

/// How a GptSampler chooses the next token.
struct SamplingOptions {
  double temperature = 1.0;  ///< the logits are divided by it; 0: always the likeliest token
  std::int64_t top_k = 0;    ///< sample from the k most likely tokens only; 0: all
  /// Of these, at this temperature, only the likeliest that together have this probability at
  /// least: nucleus sampling (Holtzman et al. 2020, arXiv:1904.09751); 1: all.
  double top_p = 1.0;
  /// Only tokens below it are sampled, for a model with a larger vocabulary than its tokenizer; 0:
  /// all.
  std::int64_t vocabulary = 0;
  std::uint64_t seed = 0;
  std::uint64_t number =
      0;  ///< index of the sample among those of one seed: each has its own random numbers
};

/// Continues a text token by token: the continuation depends only on the model, the text and the
/// options. A token costs its own products and attention to earlier tokens, which are cached
/// (GptCache); when the model's context is full, its second half is kept and recomputed.
class GptSampler {
 public:
  /// `model` must live as long. Throws InputError for an empty text, tokens outside the vocabulary,
  /// a temperature that is negative or not finite, a negative top_k, a top_p that is not above 0
  /// and at most 1, and a vocabulary beyond the model's.
  GptSampler(std::shared_ptr<Gpt> model, std::span<const std::int64_t> text,
             const SamplingOptions& options);

  /// The next token, which becomes part of the text. Throws Error if the model returns NaN.
  [[nodiscard]] std::int64_t next();

 private:
  [[nodiscard]] std::int64_t choose(std::span<const float> logits);

  std::shared_ptr<Gpt> model_;
  SamplingOptions options_;
  GptCache cache_;
  std::vector<std::int64_t> text_;  ///< its end: the part that fits the context
  std::size_t seen_ = 0;            ///< of text_, in the cache
  PhiloxSequence random_;
  std::vector<std::int64_t> order_;  ///< tokens, the likeliest first as far as needed
  std::vector<double> weights_;
};

}  // namespace lockstep::nn
