#include <lockstep/nn/layers/attention.hpp>

#include <cmath>
#include <string>
#include <utility>

#include <lockstep/autograd/functional/in_projection.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/partition.hpp>
#include <lockstep/nn/sliced_sequence.hpp>

namespace lockstep::nn {

MultiheadAttention::MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                                       const AttentionOptions& options)
    : num_heads_(num_heads),
      head_width_(num_heads > 0 ? embed_dim / num_heads : 0),
      options_(options) {
  expect_positive("MultiheadAttention", "embed_dim", embed_dim);
  expect_positive("MultiheadAttention", "num_heads", num_heads);
  if (embed_dim % num_heads != 0) {
    throw InputError("MultiheadAttention: num_heads (" + std::to_string(num_heads) +
                     ") must divide embed_dim (" + std::to_string(embed_dim) + ")");
  }
  // Xavier uniform (Glorot and Bengio 2010): bound sqrt(6 / (fan_in + fan_out)).
  const double bound = std::sqrt(6.0 / static_cast<double>(embed_dim + 3 * embed_dim));
  in_proj_weight_ =
      register_parameter("in_proj_weight", uniform({3 * embed_dim, embed_dim}, bound));
  in_proj_bias_ = register_parameter("in_proj_bias", Tensor::zeros({3 * embed_dim}));
  out_proj_ = register_module("out_proj", std::make_shared<Linear>(embed_dim, embed_dim));
  out_proj_->bias().data().zero();
}

std::int64_t MultiheadAttention::heads_here() const {
  return in_proj_weight_.shape()[0] / (3 * head_width_);
}

void MultiheadAttention::set_sliced_sequence(std::shared_ptr<SlicedSequence> sequence) {
  sequence_ = std::move(sequence);
}

bool MultiheadAttention::forward_is_collective() const { return sequence_ != nullptr; }

void MultiheadAttention::expect_whole_sequences() const {
  if (!sequence_) return;
  throw InputError(
      "MultiheadAttention: of slices of sequences (context parallelism) it computes self-attention "
      "without weights only. Use forward(x), or set_sliced_sequence(nullptr) for this layer.");
}

Variable MultiheadAttention::entered(const Variable& x) const {
  return partition() ? partition()->enter(x) : x;
}

Variable MultiheadAttention::to_itself(const Variable& x, const AttentionOptions& options) {
  const Variable projected = linear(entered(x), in_proj_weight_, in_proj_bias_);
  return (*out_proj_)(sequence_ ? sequence_->self_attention(projected, heads_here(), options)
                                : self_attention(projected, heads_here(), options));
}

Variable MultiheadAttention::forward(const Variable& x) { return to_itself(x, options_); }

AttentionOptions MultiheadAttention::options_with(const Tensor& key_padding_mask,
                                                  bool is_causal) const {
  AttentionOptions options = options_;
  if (key_padding_mask.defined()) options.key_padding_mask = key_padding_mask;
  options.causal |= is_causal;
  return options;
}

AttentionResult MultiheadAttention::forward_with_weights(const Variable& query, const Variable& key,
                                                         const Variable& value,
                                                         const Tensor& key_padding_mask,
                                                         bool is_causal,
                                                         bool average_attn_weights) {
  if (partition()) {
    throw InputError(
        "MultiheadAttention: its heads are divided over ranks, and none has all their weights. "
        "Call forward(), or do not divide the module.");
  }
  expect_whole_sequences();
  const auto [q, k, v] = in_projection(query, key, value, in_proj_weight_, in_proj_bias_);
  AttentionResult result = multi_head_attention_with_weights(
      q, k, v, num_heads_, options_with(key_padding_mask, is_causal), average_attn_weights);
  result.output = (*out_proj_)(result.output);
  return result;
}

Variable MultiheadAttention::forward(const Variable& query, const Variable& key,
                                     const Variable& value, const Tensor& key_padding_mask,
                                     bool is_causal) {
  const AttentionOptions options = options_with(key_padding_mask, is_causal);
  if (query.record() == key.record() && key.record() == value.record())
    return to_itself(query, options);
  expect_whole_sequences();
  const Variable from = entered(key);
  const Variable values = value.record() == key.record() ? from : entered(value);
  const auto [q, k, v] =
      in_projection(entered(query), from, values, in_proj_weight_, in_proj_bias_);
  return (*out_proj_)(multi_head_attention(q, k, v, heads_here(), options));
}

}  // namespace lockstep::nn
