#pragma once
#include <filesystem>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Reads a checkpoint written by any number of ranks, every byte verified. All tensors come whole
/// (global), on the host; a rank that wants its shard slices them. Hand model and optimizer to
/// copy_state or load_state_dict, which refuse another model's names and shapes.
/// Local. Throws CheckpointError naming the damaged data set and byte range, or saying what else is
/// wrong: missing, truncated, not a checkpoint, a newer format.
[[nodiscard]] CheckpointContents load_checkpoint(const std::filesystem::path& path);

/// The same on every rank of a group, each reading the file itself. Collective: a failure on any
/// rank throws CheckpointError on all, with that rank's sentence.
[[nodiscard]] CheckpointContents load_checkpoint(ProcessGroup& group,
                                                 const std::filesystem::path& path);

/// Reads all of `path` and keeps nothing; throws as load_checkpoint does.
void verify_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep
