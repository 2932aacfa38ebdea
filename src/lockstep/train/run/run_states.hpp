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

/// The states that a run keeps, each when it is due: checkpoints in its folder (RunSaves), and
/// copies in the memory of its nodes (RunLocalCopies). All of it is collective.
class RunStates {
 public:
  /// What a checkpoint holds now; with false, without what some of the ranks alone hold.
  using Contents = std::function<CheckpointContents(bool of_all_ranks)>;

  /// The run begins, or goes on from a file: see RunSaves::begin. `training`, with its folder, and
  /// `parts` must live as long. Throws AgreedError.
  RunStates(const Training& training, const TrainingParts& parts, Contents contents,
            const std::optional<std::filesystem::path>& resumed_from);

  /// After each step; what is due at an epoch's last one waits for after_epoch().
  void after_step(bool ends_epoch);
  /// With `is_over`, a checkpoint is saved in any case, if the run saves at all.
  void after_epoch(bool is_over);
  /// Before the run ends: what is under way, and where it was stopped, a checkpoint of this step.
  /// Throws AgreedError with ExitCode::checkpoint if the last one could not be saved.
  void finish(bool stopped);

  /// On rank 0, what the run saved last, else what it goes on from.
  [[nodiscard]] const std::optional<std::filesystem::path>& newest() const noexcept {
    return saves_.newest();
  }

 private:
  /// A save that is due now may be left out, the last one of a run may not.
  enum class Due : std::uint8_t { now, last };
  void save(Due due);
  /// Into the nodes' memory; not while the ranks' models differ.
  void copy();
  /// What saves do about elements that are not finite.
  [[nodiscard]] NotFinite not_finite() const;

  const Training& training_;
  const TrainingParts& parts_;
  Contents contents_;
  RunSaves saves_;
  std::optional<RunLocalCopies> copies_;
};

}  // namespace lockstep::train
