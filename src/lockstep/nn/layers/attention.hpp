#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

class Linear;
class SlicedSequence;

/// Attention in `num_heads` heads of E / num_heads (Vaswani et al. 2017, section 3.2.2): PyTorch's
/// nn.MultiheadAttention(E, num_heads, batch_first=True). Parameters in_proj_weight[3E,E] (Xavier
/// uniform; queries, keys, values), in_proj_bias[3E] (zeros), out_proj.weight[E,E],
/// out_proj.bias[E] (zeros).
class MultiheadAttention : public Module {
 public:
  /// Throws InputError unless num_heads divides embed_dim.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const AttentionOptions& options = {});
  /// Of x[B,T,E] to itself -> [B,T,E].
  Variable forward(const Variable& x) override;
  /// Of query[B,T,E] to key and value[B,S,E] -> [B,T,E]. `key_padding_mask`, bool [B,S], replaces
  /// the options' mask, or is undefined: a key is ignored where it is true; a query without any key
  /// left gets 0 from all heads. `is_causal` has the effect of options.causal.
  Variable forward(const Variable& query, const Variable& key, const Variable& value,
                   const Tensor& key_padding_mask = {}, bool is_causal = false);
  /// The same with the weights: PyTorch's need_weights=True. They are [B,T,S], the mean over the
  /// heads, or [B,num_heads,T,S] unless `average_attn_weights`, and hold T S numbers a head. Throws
  /// InputError if ranks share the heads out.
  AttentionResult forward_with_weights(const Variable& query, const Variable& key,
                                       const Variable& value, const Tensor& key_padding_mask = {},
                                       bool is_causal = false, bool average_attn_weights = true);

  /// From now on x of forward(x) and forward(x, x, x), and its key_padding_mask, are this rank's
  /// slice of sequences that several ranks hold: both are collective, and the other forms throw
  /// InputError.
  /// Null: whole sequences again.
  void set_sliced_sequence(std::shared_ptr<SlicedSequence> sequence);
  [[nodiscard]] bool forward_is_collective() const override;

  [[nodiscard]] std::int64_t num_heads() const noexcept { return num_heads_; }
  [[nodiscard]] const Variable& in_proj_weight() const noexcept { return in_proj_weight_; }
  [[nodiscard]] const Variable& in_proj_bias() const noexcept { return in_proj_bias_; }

 private:
  /// As many as the weights have rows for: this rank's, if ranks share the heads out.
  [[nodiscard]] std::int64_t heads_here() const;
  [[nodiscard]] Variable entered(const Variable& x) const;
  [[nodiscard]] Variable to_itself(const Variable& x, const AttentionOptions& options);
  void expect_whole_sequences() const;
  [[nodiscard]] AttentionOptions options_with(const Tensor& key_padding_mask, bool is_causal) const;

  std::int64_t num_heads_, head_width_;
  AttentionOptions options_;
  Variable in_proj_weight_, in_proj_bias_;
  std::shared_ptr<Linear> out_proj_;
  std::shared_ptr<SlicedSequence> sequence_;
};

}  // namespace lockstep::nn
