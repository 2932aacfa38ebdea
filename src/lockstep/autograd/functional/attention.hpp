#pragma once
#include <optional>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

struct AttentionOptions {
  bool causal = false;          ///< position i sees positions j <= i only
  std::optional<double> scale;  ///< default 1 / sqrt(D)
  Tensor mask;                  ///< bool [T,S], true: may be seen; or undefined
};

/// softmax(scale q k^T + mask) v for q[B,H,T,D], k and v[B,H,S,D] (Vaswani et al. 2017,
/// arXiv:1706.03762) -> [B,H,T,D]. A position that sees nothing gives 0.
[[nodiscard]] Variable scaled_dot_product_attention(const Variable& q, const Variable& k,
                                                    const Variable& v,
                                                    const AttentionOptions& options = {});

}  // namespace lockstep
