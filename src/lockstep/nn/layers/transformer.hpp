#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

class Dropout;
class LayerNorm;
class Linear;
class MultiheadAttention;

/// One block of a transformer encoder, x[B,T,E] -> [B,T,E], normalised before each part:
///   x = x + self_attn(norm1(x));  x = x + linear2(gelu(linear1(norm2(x))))
/// Parameters as PyTorch's nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward,
/// activation="gelu", batch_first=True, norm_first=True) names and begins them. Its dropout layers
/// are here too, after self_attn, gelu and linear2, but none acts on the attention's probabilities.
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

}  // namespace lockstep::nn
