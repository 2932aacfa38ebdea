#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/local_copies.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// The copies of one run's state in the memory of its nodes (LocalCopies), and the note in the run
/// folder by which its next start finds them. Failures are logged, and the run goes on.
class RunLocalCopies {
 public:
  /// Copies of states like `now`. None with options.local_steps = 0, or, with a warning, if a node
  /// has no room for two. Removes the copies of this run's last start, which the caller has
  /// restored. `pretended_nodes`: GroupOptions'. Collective; throws AgreedError if the note cannot
  /// be written.
  RunLocalCopies(ProcessGroup& group, const CheckpointOptions& options,
                 const std::vector<std::int64_t>& pretended_nodes,
                 const std::filesystem::path& checkpoints, const CheckpointContents& now);

  [[nodiscard]] bool is_due(std::int64_t step) const {
    return copies_ != nullptr && step % every_ == 0;
  }
  /// Collective.
  void save(const CheckpointContents& contents, NotFinite not_finite);
  /// To be called when the run folder has everything: removes the copies and the note. Collective.
  void end();

 private:
  ProcessGroup& group_;
  std::int64_t every_;
  std::filesystem::path note_;
  std::unique_ptr<LocalCopies> copies_;
  std::string last_failure_;
};

/// The note in which a start records the folder of its nodes' copies. Each start rewrites it.
[[nodiscard]] std::filesystem::path note_of_local_copies(const std::filesystem::path& checkpoints);
/// Whether this machine's memory holds a copy that the note names. Local.
[[nodiscard]] bool has_local_copies_here(const std::filesystem::path& checkpoints);

/// The newest copy of the last start in its nodes' memory, if newer than `newest`, saved as a
/// checkpoint in `checkpoints`; else `newest`. Warns if copies are gone. Collective; throws an
/// Agreed error if the checkpoint cannot be saved, or `expect_fits` throws (see
/// bring_back_local_copy).
[[nodiscard]] std::optional<std::filesystem::path> newest_of_both_levels(
    ProcessGroup& group, const std::filesystem::path& checkpoints,
    const std::optional<std::filesystem::path>& newest, const ExpectFits& expect_fits = {});

}  // namespace lockstep::train
