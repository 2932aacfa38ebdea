#pragma once
#include <lockstep/autograd/variable.hpp>
#include <lockstep/parallel/context/ring_of_keys.hpp>

namespace lockstep::detail {

/// ring_attention by operations that differentiate any number of times, for its second derivatives:
/// q[B,H,T,D], this rank's k and v[B,G,S,D] -> [B,H,T,D]. Holds all ranks' keys and values, and
/// this rank's scores of them. `key_padding_mask` is undefined unless plan.pads. Collective,
/// forward and backward. Not for users.
[[nodiscard]] Variable gathered_attention(const RingPlan& plan, const Tensor& key_padding_mask,
                                          const Variable& q, const Variable& k, const Variable& v);

}  // namespace lockstep::detail
