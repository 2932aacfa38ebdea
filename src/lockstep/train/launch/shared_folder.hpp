#pragma once
#include <filesystem>

#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/finding.hpp>

namespace lockstep::train {

/// Rank 0 writes a small file into `folder`, which must be there for it, one rank of each machine
/// looks for it, and rank 0 removes it. An error where it cannot be written, or is not the same
/// folder everywhere. The same findings on every rank. Collective.
[[nodiscard]] Findings check_shared_folder(ProcessGroup& group, const NodeLayout& layout,
                                           const std::filesystem::path& folder);

}  // namespace lockstep::train
