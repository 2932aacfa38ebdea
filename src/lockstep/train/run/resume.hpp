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

/// The checkpoint that --resume means; none where there is nothing to resume, which is said in a
/// warning. `expect_fits` is asked of a copy in a node's memory before it becomes a checkpoint.
/// Throws AgreedError where `folder` holds checkpoints, or an abandoned branch's, but none to go on
/// from. Collective.
[[nodiscard]] std::optional<std::filesystem::path> checkpoint_to_resume(
    ProcessGroup& group, const CommandLine& line, const std::filesystem::path& folder,
    const ExpectFits& expect_fits);

/// The metrics.jsonl of the run, or of the abandoned branch, that `checkpoint` lies in; it may not
/// be there. Local.
[[nodiscard]] std::filesystem::path metrics_of(const std::filesystem::path& checkpoint);

/// Before the run goes on from `from`: where checkpoints in `folder` are another branch's, a copy
/// of metrics.jsonl goes to where they will be moved (RunCheckpoints::begin); of a run that has
/// saved none, to metrics.abandoned.N.jsonl. Throws FileError. Local.
void keep_metrics_of_branch(const RunFolder& folder, const std::filesystem::path& from);

/// Throws InputError if `checkpoint` is of the middle of an epoch and `deck` (resolved) names other
/// samples, or another order of them, than the deck in the checkpoint: "the next batch" would mean
/// something else. Keys that either deck lacks, as of an older Lockstep, are passed over. Local.
void check_same_samples(const CheckpointContents& checkpoint, const std::string& deck);

}  // namespace lockstep::train
