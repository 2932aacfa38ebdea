#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

class Linear;

/// Self-attention x[B,T,E] -> [B,T,E] in `num_heads` heads of E / num_heads (Vaswani et al. 2017,
/// section 3.2.2): PyTorch's nn.MultiheadAttention(E, num_heads, batch_first=True) applied to
/// (x, x, x). Parameters in_proj_weight[3E,E] (Xavier uniform; queries, keys, values),
/// in_proj_bias[3E] (zeros), out_proj.weight[E,E], out_proj.bias[E] (zeros).
class MultiheadAttention : public Module {
 public:
  /// Throws InputError unless num_heads divides embed_dim.
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads,
                     const AttentionOptions& options = {});
  Variable forward(const Variable& x) override;

 private:
  std::int64_t num_heads_;
  AttentionOptions options_;
  Variable in_proj_weight_, in_proj_bias_;
  std::shared_ptr<Linear> out_proj_;
};

}  // namespace lockstep::nn
