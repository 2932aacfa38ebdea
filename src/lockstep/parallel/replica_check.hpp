#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// Differences between the ranks' copies of a state; the same on every rank.
struct ReplicaDifference {
  std::string first;       ///< name of the first tensor that differs
  std::size_t differ = 0;  ///< number of ReplicaCheck's tensors that differ
  std::vector<int> ranks;  ///< ranks that deviate from the majority in any of them; else all ranks
  bool has_majority = true;  ///< for each tensor more than half of the ranks have the same bits
  /// "rank 2 (node7) has other bits than the other 3 ranks in conv1.weight"
  std::string text;
};

/// Compares the ranks' copies of a state that DistributedDataParallel keeps equal, bit by bit:
/// parameters and an optimizer's state, but not the running statistics of BatchNorm, which differ
/// between two broadcasts. A difference comes from a fault of memory, processor or link, or from a
/// program that updated one rank's copy only; every later gradient then mixes different models.
class ReplicaCheck {
 public:
  /// `state`: handles of the compared tensors; names, dtypes and shapes are the same on all ranks.
  ReplicaCheck(std::shared_ptr<ProcessGroup> group, StateDict state);

  /// Reads the state once (XXH3) and gathers 8 bytes per rank; allocates nothing for equal copies
  /// on the host. On a difference gathers 8 more bytes per tensor. Two different states pass with
  /// probability 2^-64. Collective.
  [[nodiscard]] std::optional<ReplicaDifference> compare();

 private:
  [[nodiscard]] bool all_equal();
  [[nodiscard]] ReplicaDifference difference() const;

  std::shared_ptr<ProcessGroup> group_;
  StateDict state_;
  std::vector<std::uint64_t> hashes_;  ///< one per tensor
  Tensor digest_, digests_;            ///< this rank's and every rank's hash of hashes_
};

}  // namespace lockstep
