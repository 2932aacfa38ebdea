#pragma once
#include <cstdint>
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

/// The same where q, k and v are the thirds of the last dimension of qkv[B,T,3E], each made of
/// `heads` heads of E / heads side by side -> [B,T,E], heads side by side. Copies nothing.
[[nodiscard]] Variable self_attention(const Variable& qkv, std::int64_t heads,
                                      const AttentionOptions& options = {});

}  // namespace lockstep
