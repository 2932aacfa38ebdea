#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/nn/models/model_kind.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>

namespace lockstep::nn {

class Embedding;
class Gpt;
class GptBlock;
class SlicedSequence;

/// Options of Gpt; the defaults are those of GPT-2 small.
struct GptOptions {
  std::int64_t vocabulary = 50257;  ///< tokens in the cache
  std::int64_t context = 1024;      ///< positions, the most tokens that are seen at a time
  std::int64_t width = 768;         ///< features of a token
  std::int64_t depth = 12;          ///< blocks
  std::int64_t heads = 12;          ///< must divide width
  double dropout = 0.0;             ///< probability, in every dropout layer
  bool recompute = false;           ///< backward computes each block again: Recomputed
};

/// The cache of a Gpt, so that tokens already seen need not be computed again: query, key and value
/// of each token in every block. For one sequence.
class GptCache {
 public:
  /// Throws InputError for a model whose parameters have 16 bits, and for one that ranks share out.
  explicit GptCache(const Gpt& model);
  GptCache(const GptCache&) = delete;  // a copy would share the memory
  GptCache& operator=(const GptCache&) = delete;
  GptCache(GptCache&&) = default;
  GptCache& operator=(GptCache&&) = default;
  ~GptCache() = default;

  [[nodiscard]] std::int64_t length() const noexcept { return length_; }  ///< tokens seen
  /// The tokens that still fit.
  [[nodiscard]] std::int64_t room() const noexcept { return context_ - length_; }
  void clear() noexcept { length_ = 0; }

 private:
  friend class Gpt;
  std::vector<Tensor> projected_;  // [context, 3 width] a block
  std::int64_t context_, length_ = 0;
};

/// GPT-2 (Radford et al. 2019), with its names: x = wte[token] + wpe[position]; in each block
/// h.0, h.1, ...
///   x = x + attn.c_proj(attention(attn.c_attn(ln_1(x))))
///   x = x + mlp.c_proj(gelu(mlp.c_fc(ln_2(x))))          (gelu by tanh)
/// and logits = ln_f(x) wte^T. Weights are [out, in] as PyTorch's Linear has them, those of c_attn
/// query, key and value in this order. Dropout behind the embeddings and behind both c_proj; none
/// on the attention's probabilities. Begins as GPT-2: normal with standard deviation 0.02, both
/// c_proj over sqrt(2 depth), biases 0.
class Gpt : public Module {
 public:
  /// Throws InputError for sizes below 1 and heads that do not divide the width.
  explicit Gpt(const GptOptions& options);

  /// tokens[B,T] (i64, T at most the context) -> logits[B,T,vocabulary].
  Variable forward(const Variable& tokens) override;
  /// The cross-entropy of target[B,T] under these logits, which are never whole.
  [[nodiscard]] Variable loss(const Variable& tokens, const Tensor& target,
                              const LossOptions& options = {});
  /// The logits [vocabulary] of the token after `tokens` (i64 [n], at least one and at most
  /// cache.room()); `tokens` follow those in the cache and are added to it. Records no gradient;
  /// dropout does not act.
  [[nodiscard]] Tensor next_logits(const Tensor& tokens, GptCache& cache);

  /// From now on tokens and targets of forward() and loss() are this rank's slice of sequences that
  /// several ranks hold: both are collective. Null: whole sequences again.
  void set_sliced_sequence(std::shared_ptr<SlicedSequence> sequence);
  [[nodiscard]] bool forward_is_collective() const override;

  [[nodiscard]] const GptOptions& options() const noexcept { return options_; }

 private:
  /// x[B,T,width] of tokens at positions [first, first + T).
  [[nodiscard]] Variable embedded(const Variable& tokens, std::int64_t first);
  [[nodiscard]] Variable embedded_slice(const Variable& tokens);
  [[nodiscard]] Variable hidden(const Variable& tokens);

  GptOptions options_;
  std::shared_ptr<Embedding> wte_, wpe_;
  Tensor positions_;  // 0, 1, ... [context]
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  std::shared_ptr<Module> dropout_, h_, ln_f_;
  std::shared_ptr<SlicedSequence> sequence_;
};

/// A Gpt of a deck: of as many tokens as the output's last extent has.
struct GptDeckOptions {
  std::int64_t width = 192;       ///< GptOptions, with the sizes of a small one
  std::int64_t depth = 6;         ///< likewise
  std::int64_t heads = 3;         ///< likewise
  std::int64_t context = 0;       ///< positions; 0: as many as a sample has
  double residual_dropout = 0.0;  ///< GptOptions::dropout
  bool recompute = false;         ///< GptOptions::recompute

  [[nodiscard]] std::shared_ptr<Module> make(const ModelFit& fit) const;
};
void declare(DeckTable& table, GptDeckOptions& options);

}  // namespace lockstep::nn
