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

/// In what the ranks' copies of a state differ; the same on every rank.
struct ReplicaDifference {
  std::string first;         ///< name of the first tensor that differs
  std::size_t differ = 0;    ///< how many do, of ReplicaCheck's
  std::vector<int> ranks;    ///< which deviate from the majority, in any of them; else all ranks
  bool has_majority = true;  ///< of each of them more than half of the ranks have the same bits
  /// "rank 2 (node7) has other bits than the other 3 ranks in conv1.weight"
  std::string text;
};

/// Compares the ranks' copies of a state that DistributedDataParallel keeps equal, bit by bit:
/// parameters and an optimizer's state, not the running statistics of BatchNorm, which are each
/// rank's own between two broadcasts. What differs was changed by a fault of memory, processor or
/// link, or by a program that updated one rank's copy only; every later gradient is then a mixture.
class ReplicaCheck {
 public:
  /// `state`: handles of what is compared; names, dtypes and shapes as on the other ranks.
  ReplicaCheck(std::shared_ptr<ProcessGroup> group, StateDict state);

  /// Reads the state once (XXH3) and gathers 8 bytes a rank; allocates nothing for a state on the
  /// host whose copies are equal. Otherwise gathers 8 bytes a tensor more. Two states that differ
  /// pass with probability 2^-64. Collective.
  [[nodiscard]] std::optional<ReplicaDifference> compare();

 private:
  [[nodiscard]] bool all_equal();
  [[nodiscard]] ReplicaDifference difference() const;

  std::shared_ptr<ProcessGroup> group_;
  StateDict state_;
  std::vector<std::uint64_t> hashes_;  ///< one a tensor
  Tensor digest_, digests_;            ///< of hashes_: this rank's, every rank's
};

}  // namespace lockstep
