#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/local_copies.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/command_line.hpp>
#include <lockstep/train/run/run_folder.hpp>

namespace lockstep::train {

/// The checkpoint chosen by --resume; none if there is nothing to resume, with a warning.
/// `expect_fits` checks a copy in a node's memory before it becomes a checkpoint. Throws
/// AgreedError if `folder` holds checkpoints, or an abandoned branch's, but none to resume from.
/// Collective.
[[nodiscard]] std::optional<std::filesystem::path> checkpoint_to_resume(
    ProcessGroup& group, const CommandLine& line, const std::filesystem::path& folder,
    const ExpectFits& expect_fits);

/// The metrics.jsonl of the run, or of the abandoned branch, that `checkpoint` belongs to; it may
/// not exist. Local.
[[nodiscard]] std::filesystem::path metrics_of(const std::filesystem::path& checkpoint);

/// To be called before the run resumes from `from`. If checkpoints in `folder` belong to another
/// branch, copies metrics.jsonl to the folder they will be moved to (RunCheckpoints::begin); for a
/// run that has saved none, to metrics.abandoned.N.jsonl. Throws FileError. Local.
void keep_metrics_of_branch(const RunFolder& folder, const std::filesystem::path& from);

/// Throws InputError if `deck` (resolved) has other classes or another normalisation than the
/// checkpoint's deck; and, if `checkpoint` is from the middle of an epoch, other samples or another
/// order: the next batch would differ. Keys that
/// either deck lacks, for example in decks of an older Lockstep, are ignored. Local.
void check_same_samples(const CheckpointContents& checkpoint, const std::string& deck);

}  // namespace lockstep::train
