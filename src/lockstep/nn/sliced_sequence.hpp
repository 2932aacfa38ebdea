#pragma once
#include <cstdint>

#include <lockstep/autograd/functional/attention.hpp>

namespace lockstep::nn {

/// Sequences of which this rank holds a slice, as a model sees them: its view of the other
/// slices. Given to models by context_parallel (parallel/context/context_parallel.hpp).
class SlicedSequence {
 public:
  virtual ~SlicedSequence() = default;
  /// self_attention over the whole sequences, for the slice qkv[B,T,3E] -> [B,T,E];
  /// options.key_padding_mask is that of this slice, bool [B,T]. Collective. Throws InputError for
  /// options.mask.
  [[nodiscard]] virtual Variable self_attention(const Variable& qkv, std::int64_t heads,
                                                const AttentionOptions& options) = 0;
  /// Positions in the whole sequence of this rank's `tokens` tokens, i64[tokens] on the host.
  /// Collective. Throws ShapeError, on every rank, if the whole one is longer than `context`.
  [[nodiscard]] virtual Tensor positions(std::int64_t tokens, std::int64_t context) = 0;
};

}  // namespace lockstep::nn
