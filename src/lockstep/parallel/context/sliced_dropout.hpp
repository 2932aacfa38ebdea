#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include <lockstep/nn/partition.hpp>
#include <lockstep/nn/sliced_sequence.hpp>
#include <lockstep/parallel/collectives.hpp>
#include <lockstep/parallel/context/sequence_slice.hpp>

// The object that context_parallel gives to Dropout. Private to this folder.

namespace lockstep {

/// This rank's positions in a sequence, as the slices of all ranks make it up: every rank has as
/// many as `lengths`, i64 [ranks] on the host, says.
struct SlicePositions {
  std::array<SequenceRun, 2> runs;
  std::int64_t length = 0;  ///< of the whole sequence
};
[[nodiscard]] SlicePositions slice_positions(const Tensor& lengths, int rank, SequenceOrder order);

/// Of a Dropout of slices x[B,T,...] of sequences: each rank draws its part of the mask that one
/// rank would draw for the whole sequences. Collective: the ranks tell each other the lengths and
/// rank 0's key. Of tensors of less than three dimensions, and when no layer has `sequence` any
/// more, a Dropout like any other.
class SlicedDropout final : public nn::Partition {
 public:
  SlicedDropout(GroupPtr group, SequenceOrder order, std::weak_ptr<nn::SlicedSequence> sequence)
      : group_(std::move(group)), order_(order), sequence_(std::move(sequence)) {}
  [[nodiscard]] Variable dropout(const Variable& x, double p, const RandomKey& key) const override;

 private:
  GroupPtr group_;
  SequenceOrder order_;
  std::weak_ptr<nn::SlicedSequence> sequence_;
};

}  // namespace lockstep
