#pragma once
#include <filesystem>
#include <string>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

class CheckpointFile;

/// Reads a checkpoint written by any number of ranks and verifies every byte. All tensors are whole
/// (global), on the host. Pass model and optimizer to copy_state or load_state_dict, which refuse
/// other names and shapes. Local. Throws CheckpointError naming the damaged data set and byte
/// range, or the fault of the file: missing, truncated, not a checkpoint, a newer format.
[[nodiscard]] CheckpointContents load_checkpoint(const std::filesystem::path& path);

/// Reads a checkpoint together with the ranks of a group; each rank gets the parts it needs. For a
/// tensor that `model` or `optimizer`, the rank's own state, has with the file's global shape, that
/// is the part given by its placement there, whatever parts the file was written in. Every other
/// tensor is whole. A tensor that all want whole is read once, each rank reading a share, and
/// exchanged. Every byte read is verified. `model` and `optimizer` are not written to; their
/// replicated tensors must be the same on every rank. Collective: a failure on any rank throws
/// CheckpointError on all, with that rank's sentence.
[[nodiscard]] CheckpointContents load_checkpoint(ProcessGroup& group,
                                                 const std::filesystem::path& path,
                                                 const StateDict& model = {},
                                                 const StateDict& optimizer = {});

/// The same, read into the tensors of `model` and `optimizer` themselves, like PyTorch's
/// distributed.checkpoint.load. This needs no memory for a second state, whose first touch takes
/// longer than reading. The returned tensors share that memory. Tensors that are not on the host,
/// not of plain layout, or not of the file's type and sizes get memory of their own. After a
/// failure the state is a mix of both. Collective.
[[nodiscard]] CheckpointContents load_checkpoint_in_place(ProcessGroup& group,
                                                          const std::filesystem::path& path,
                                                          const StateDict& model,
                                                          const StateDict& optimizer = {});

/// Everything but the tensors. Local.
[[nodiscard]] CheckpointContents load_facts(const CheckpointFile& file);

/// Reads all of `path` and keeps nothing; throws as load_checkpoint does. Returns the path of the
/// first tensor of the model or its optimizer with an element that is not finite, or an empty path.
std::string verify_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep
