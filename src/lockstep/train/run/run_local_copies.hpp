#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/local_copies.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// The copies of one run's state in the memory of its nodes (LocalCopies), and the note in the run
/// folder by which its next start finds them. What fails is said in the log, and the run goes on.
class RunLocalCopies {
 public:
  /// Copies of a state of `bytes`; none with options.local_steps = 0, or where a node has no room
  /// for two, which a warning says. What this run's last start left, and who calls
  /// has brought back, is removed. Collective; throws AgreedError where the note cannot be written.
  RunLocalCopies(ProcessGroup& group, const CheckpointOptions& options,
                 const std::filesystem::path& checkpoints, std::int64_t bytes);

  [[nodiscard]] bool is_due(std::int64_t step) const {
    return copies_ != nullptr && step % every_ == 0;
  }
  /// Whether a copy is of all ranks' state: they share one node. Else each node's is of its own
  /// ranks, and has no part that another node's ranks alone hold.
  [[nodiscard]] bool are_of_all_ranks() const noexcept { return one_node_; }
  /// Collective. What the state holds in parts must be of all ranks.
  void save(const CheckpointContents& contents, NotFinite not_finite);
  /// The run folder has all: removes the copies and the note. Collective.
  void end();

 private:
  ProcessGroup& group_;
  std::int64_t every_;
  bool one_node_ = true;
  std::filesystem::path note_;
  std::unique_ptr<LocalCopies> copies_;
  std::string last_failure_;
};

/// Where a start notes in which folder of its nodes its copies lie; it is made anew by each.
[[nodiscard]] std::filesystem::path note_of_local_copies(const std::filesystem::path& checkpoints);
/// Whether this machine's memory holds a copy that the note tells of. Local.
[[nodiscard]] bool has_local_copies_here(const std::filesystem::path& checkpoints);

/// What the last start left in its nodes' memory, if that is newer than `newest`, as a checkpoint
/// in `checkpoints`; else `newest`. A warning where copies are not there any more. Collective;
/// throws an Agreed error where one cannot be put there, or `expect_fits` does (see
/// bring_back_local_copy).
[[nodiscard]] std::optional<std::filesystem::path> newest_of_both_levels(
    ProcessGroup& group, const std::filesystem::path& checkpoints,
    const std::optional<std::filesystem::path>& newest, const ExpectFits& expect_fits = {});

}  // namespace lockstep::train
