#pragma once
#include <filesystem>

#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/finding.hpp>

namespace lockstep::train {

/// Rank 0 writes a small file into `folder`, which must exist there; one rank of each machine looks
/// for it; rank 0 removes it. An error if it cannot be written, or if ranks see different folders.
/// The same findings on every rank. Collective.
[[nodiscard]] Findings check_shared_folder(ProcessGroup& group, const NodeLayout& layout,
                                           const std::filesystem::path& folder);

}  // namespace lockstep::train
