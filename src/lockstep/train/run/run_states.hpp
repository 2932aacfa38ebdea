#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/train/run/run_local_copies.hpp>
#include <lockstep/train/run/run_saves.hpp>
#include <lockstep/train/training_part.hpp>

namespace lockstep::train {

/// Saves a run's states, each when it is due: checkpoints in its folder (RunSaves), and copies in
/// the memory of its nodes (RunLocalCopies). All functions are collective.
class RunStates {
 public:
  /// Contents of a checkpoint now.
  using Contents = std::function<CheckpointContents()>;

  /// To be called when the run begins or resumes from a file: see RunSaves::begin. `training`, with
  /// its folder, and `parts` must outlive this. Throws AgreedError.
  RunStates(const Training& training, const TrainingParts& parts, Contents contents,
            const std::optional<std::filesystem::path>& resumed_from);

  /// To be called after each step. Saves due at an epoch's last step wait for after_epoch().
  void after_step(bool ends_epoch);
  /// With `is_over` saves a checkpoint in any case, if the run saves at all.
  void after_epoch(bool is_over);
  /// To be called before the run ends: waits for the save in progress and, after a stop, saves a
  /// checkpoint of this step. Throws AgreedError with ExitCode::checkpoint if the last one could
  /// not be saved.
  void finish(bool stopped);

  /// On rank 0, the run's last checkpoint, or the one it resumed from.
  [[nodiscard]] const std::optional<std::filesystem::path>& newest() const noexcept {
    return saves_.newest();
  }

 private:
  /// A save due now may be skipped, but not a run's last one.
  enum class Due : std::uint8_t { now, last };
  void save(Due due);
  /// Tells the parts of a checkpoint that is complete.
  void tell_saved();
  /// Copies into the nodes' memory; not while the ranks' models differ.
  void copy();
  /// How saves treat elements that are not finite.
  [[nodiscard]] NotFinite not_finite() const;

  const Training& training_;
  const TrainingParts& parts_;
  Contents contents_;
  RunSaves saves_;
  std::int64_t told_step_ = -1;  ///< of the last checkpoint that the parts heard of
  std::optional<RunLocalCopies> copies_;
};

}  // namespace lockstep::train
