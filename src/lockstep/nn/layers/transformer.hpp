#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::nn {

class Dropout;
class LayerNorm;
class Linear;
class MultiheadAttention;

/// One block of a transformer encoder, x[B,T,E] -> [B,T,E], normalised before each part:
///   x = x + self_attn(norm1(x));  x = x + linear2(gelu(linear1(norm2(x))))
/// Parameters have the names and the initialization of PyTorch's
/// nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward, activation="gelu", batch_first=True,
/// norm_first=True). It has the same dropout layers after self_attn, gelu and linear2, but none on
/// the attention's probabilities.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t nhead, std::int64_t dim_feedforward,
                          double dropout = 0.0);
  Variable forward(const Variable& x) override;

 private:
  std::shared_ptr<MultiheadAttention> self_attn_;
  std::shared_ptr<Linear> linear1_, linear2_;
  std::shared_ptr<LayerNorm> norm1_, norm2_;
  std::shared_ptr<Dropout> dropout_, dropout1_, dropout2_;
};

/// `num_layers` such blocks, called layers.0, layers.1, ..., and a LayerNorm called norm.
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(std::int64_t num_layers, std::int64_t d_model, std::int64_t nhead,
                     std::int64_t dim_feedforward, double dropout = 0.0);
  Variable forward(const Variable& x) override;

 private:
  std::shared_ptr<Module> layers_, norm_;
};

/// Options of TransformerDecoderLayer; the defaults are those of PyTorch.
struct TransformerDecoderOptions {
  enum class Activation : std::uint8_t { relu, gelu };
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;  ///< after each part and the activation, not of attention's probabilities
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool norm_first = false;  ///< normalise before each part instead of behind it
};

/// The masks of a decoder's attention.
struct DecoderMasks {
  bool tgt_is_causal = false;      ///< position i of the target attends to positions up to i
  Tensor tgt_key_padding_mask;     ///< bool [B,T], true: nobody sees this one; or undefined
  Tensor memory_key_padding_mask;  ///< bool [B,S], the same for the encoder's output
};

/// One block of a transformer decoder (Vaswani et al. 2017): attention of the target tgt[B,T,E] to
/// itself, then to memory[B,S,E], an encoder's output, then linear2(activation(linear1(x)));
/// x = norm(x + part(x)), with norm_first x = x + part(norm(x)). Names, defaults and masks are
/// those of PyTorch's nn.TransformerDecoderLayer(d_model, nhead, batch_first=True).
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t nhead,
                          const TransformerDecoderOptions& options = {});
  /// -> [B,T,E].
  Variable forward(const Variable& tgt, const Variable& memory, const DecoderMasks& masks = {});
  /// Throws Error: a decoder needs a memory.
  Variable forward(const Variable& tgt) override;

 private:
  [[nodiscard]] Variable feed_forward(const Variable& x);

  TransformerDecoderOptions options_;
  std::shared_ptr<MultiheadAttention> self_attn_, multihead_attn_;
  std::shared_ptr<Linear> linear1_, linear2_;
  std::shared_ptr<LayerNorm> norm1_, norm2_, norm3_;
  std::shared_ptr<Dropout> dropout_, dropout1_, dropout2_, dropout3_;
};

/// `num_layers` such blocks, called layers.0, layers.1, ..., each with its own initialization, and,
/// if `norm`, a final LayerNorm of that name.
class TransformerDecoder : public Module {
 public:
  TransformerDecoder(std::int64_t num_layers, std::int64_t d_model, std::int64_t nhead,
                     const TransformerDecoderOptions& options = {}, bool norm = false);
  Variable forward(const Variable& tgt, const Variable& memory, const DecoderMasks& masks = {});
  /// Throws Error: a decoder needs a memory.
  Variable forward(const Variable& tgt) override;

 private:
  std::vector<std::shared_ptr<TransformerDecoderLayer>> layers_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace lockstep::nn
