#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// folder / "step-00000938.h5".
[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& folder,
                                                    std::int64_t step);

/// The checkpoints in `folder`, newest (greatest step) first; none if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> list_checkpoints(
    const std::filesystem::path& folder);

/// The newest checkpoint in `folder` that verifies. Each newer one that does not is named, with
/// what is wrong with it, in a warning of the log. Local.
[[nodiscard]] std::optional<std::filesystem::path> newest_good_checkpoint(
    const std::filesystem::path& folder);

/// The same, decided by rank 0 for all. Collective.
[[nodiscard]] std::optional<std::filesystem::path> newest_good_checkpoint(
    ProcessGroup& group, const std::filesystem::path& folder);

/// Removes all but the `keep` newest checkpoints (0: keeps all) and what killed processes left of
/// unfinished ones. For one rank, while nobody saves in that folder. What cannot be removed is a
/// warning in the log.
void prune_checkpoints(const std::filesystem::path& folder, std::int64_t keep);

}  // namespace lockstep
