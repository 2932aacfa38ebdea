#pragma once
#include <array>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Which part of a sequence a rank of context parallelism holds. A sequence of L positions is cut
/// into equal chunks, the first L mod chunks of them one longer.
enum class SequenceOrder : std::uint8_t {
  contiguous,  ///< n chunks: rank r holds chunk r
  /// 2 n chunks: rank r holds chunks r and 2 n - 1 - r, so that causal attention is as much work on
  /// every rank (the balance of Megatron-LM and PyTorch's context_parallel). Of a slice of t
  /// positions, (t + 1) / 2 are in the first chunk.
  zigzag,
};

/// Positions [begin, end) of a sequence.
struct SequenceRun {
  std::int64_t begin = 0, end = 0;
  [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const SequenceRun&) const = default;
};

/// The runs that rank `rank` of `ranks` holds of `length` positions, in order; of a contiguous
/// slice the second is empty. Local.
[[nodiscard]] std::array<SequenceRun, 2> sequence_runs(std::int64_t length, int rank, int ranks,
                                                       SequenceOrder order);

/// This rank's slice of x[B,L,...], any dtype and device: [B,T,...], a copy. Cuts batches of token
/// sequences and their targets. Local. Throws ShapeError for less than two dimensions.
[[nodiscard]] Tensor sequence_slice(const Tensor& x, int rank, int ranks,
                                    SequenceOrder order = SequenceOrder::contiguous);

}  // namespace lockstep
