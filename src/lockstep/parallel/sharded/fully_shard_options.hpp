#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/tensor/dtype.hpp>

namespace lockstep {

class ProcessGroup;

/// Options of FullyShardedDataParallel.
struct FullyShardOptions {
  /// Names of the modules that are units, in which '*' matches any characters and '?' any one.
  /// Empty: the children of each outermost list, a module whose children are called "0", "1", ...
  /// (Sequential, ModuleList, the blocks of a transformer). All other parameters, and those that
  /// two units share, are in the root unit.
  std::vector<std::string> units;
  /// True: ZeRO-3, a unit's parameters are freed after its forward and gathered again for its
  /// backward. False: ZeRO-2, they stay until its backward has ended, as the root unit's always do.
  bool reshard_after_forward = true;
  /// The dtype of gathered parameters, bf16 or f16, and with it of the messages that gather them;
  /// shards keep theirs. Unset: that of the shards. PyTorch's MixedPrecisionPolicy.
  std::optional<DType> param_dtype;
  /// The dtype in which gradients are summed. Unset: that of the gathered parameters.
  std::optional<DType> reduce_dtype;
  /// The ranks that hold the same pieces as this one, each in a group of its own: hybrid sharding
  /// (HSDP), PyTorch's fully_shard on a mesh of two dimensions. Parameters are gathered within the
  /// sharded group only; the sums of gradients go on to the replicas. All ranks of both groups are
  /// a mesh: {.replicate = mesh.group("dp")} with mesh.group("fsdp") as the group. No other code
  /// uses it during backward. Null: no replicas.
  std::shared_ptr<ProcessGroup> replicate;
};

}  // namespace lockstep
