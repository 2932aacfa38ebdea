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

/// The step in the name of a path made by checkpoint_path(); nothing for any other.
[[nodiscard]] std::optional<std::int64_t> step_of(const std::filesystem::path& path);

/// Throws CheckpointError if `path` has the name of another step's checkpoint: it is a copy under a
/// wrong name, and the run would resume from a step it has not reached. Local.
void expect_step_of_name(const std::filesystem::path& path);

/// folder / "best.h5".
[[nodiscard]] std::filesystem::path best_checkpoint(const std::filesystem::path& folder);

/// The checkpoints in `folder`, newest (greatest step) first; none if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> list_checkpoints(
    const std::filesystem::path& folder);

/// The newest checkpoint in `folder` that verifies and whose step matches its name. Each newer one
/// that fails gives a warning in the log with its fault. A living run may use the folder and remove
/// files meanwhile. Local.
[[nodiscard]] std::optional<std::filesystem::path> newest_good_checkpoint(
    const std::filesystem::path& folder);

/// The same, decided by rank 0 for all. Collective.
[[nodiscard]] std::optional<std::filesystem::path> newest_good_checkpoint(
    ProcessGroup& group, const std::filesystem::path& folder);

/// Unpublished checkpoints left by killed processes.
[[nodiscard]] std::vector<std::filesystem::path> list_unfinished_checkpoints(
    const std::filesystem::path& folder);

/// folder / "abandoned.1": holds newer checkpoints after a run has resumed from an older one.
[[nodiscard]] std::filesystem::path abandoned_folder(const std::filesystem::path& folder,
                                                     int number);

/// The first of these folders, from 1 on, that holds no checkpoint.
[[nodiscard]] std::filesystem::path next_abandoned_folder(const std::filesystem::path& folder);

}  // namespace lockstep
