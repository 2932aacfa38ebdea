#pragma once
#include <filesystem>
#include <string>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

class CheckpointFile;

/// Reads a checkpoint written by any number of ranks, every byte verified. All tensors come whole
/// (global), on the host. Hand model and optimizer to copy_state or load_state_dict, which refuse
/// another model's names and shapes.
/// Local. Throws CheckpointError naming the damaged data set and byte range, or saying what else is
/// wrong: missing, truncated, not a checkpoint, a newer format.
[[nodiscard]] CheckpointContents load_checkpoint(const std::filesystem::path& path);

/// The same by the ranks of a group together, each of which gets what it needs: of a tensor that
/// `model` or `optimizer`, its own state, has with the file's global shape, the part that its
/// placement there says, whatever parts the file was written in; everything else whole. A rank
/// reads its parts; what all want whole is read once, each rank a share of it, and exchanged. Every
/// byte that is read is verified; nothing is written into `model` and `optimizer`, and their
/// replicated tensors must be the same on every rank.
/// Collective: a failure on any rank throws CheckpointError on all, with that rank's sentence.
[[nodiscard]] CheckpointContents load_checkpoint(ProcessGroup& group,
                                                 const std::filesystem::path& path,
                                                 const StateDict& model = {},
                                                 const StateDict& optimizer = {});

/// The same into the tensors of `model` and `optimizer` themselves, as PyTorch's
/// distributed.checkpoint.load does: no memory for a second state, whose first touch takes longer
/// than reading it. What comes back shares theirs; where theirs are not on the host, not of plain
/// layout, or not of the file's type and sizes, tensors come in memory of their own. After a
/// failure they hold some of both states. Collective.
[[nodiscard]] CheckpointContents load_checkpoint_in_place(ProcessGroup& group,
                                                          const std::filesystem::path& path,
                                                          const StateDict& model,
                                                          const StateDict& optimizer = {});

/// All but the tensors. Local.
[[nodiscard]] CheckpointContents load_facts(const CheckpointFile& file);

/// Reads all of `path` and keeps nothing; throws as load_checkpoint does. Returns the path of the
/// first tensor of the model or its optimizer with an element that is not finite; or empty.
std::string verify_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep
