#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>

namespace lockstep {

/// Whether a value of options.best is better than `best`, the best so far, if any. NaN never is,
/// and any number is better than NaN.
[[nodiscard]] bool is_better(const CheckpointOptions& options, std::optional<double> figure,
                             std::optional<double> best);
/// The value of options.best in `train`, if it was measured.
[[nodiscard]] std::optional<double> figure_of(const CheckpointOptions& options,
                                              const TrainState& train);

/// The checkpoints of one run in its folder: the one it resumed from, those it wrote, and those
/// that may be removed. Local; for one rank alone, while no other process saves in that folder.
///
/// The files named step-N.h5 are one branch, the run's: its past, up to the checkpoint it resumed
/// from, and its own saves. Other checkpoints are moved into a folder of their own before the run
/// takes a step. So the run always resumes from the greatest good step. This also holds for a
/// program that knows only the names, and in a copy of the folder.
class RunCheckpoints {
 public:
  RunCheckpoints(std::filesystem::path folder, const CheckpointOptions& options);

  /// The run resumes from `from`, which was verified, or starts anew. Checkpoints of later steps in
  /// the folder, or all if `from` is not in this folder, belong to another branch. They are moved
  /// to next_abandoned_folder(folder), with a warning in the log, and never removed. The newest is
  /// moved last: if the process is killed before, the branch is still the old one. Returns whether
  /// `from` is in this folder. If it is best.h5 and the file of its step is gone, that name is
  /// restored. With options.best, of `from` and the checkpoints before it the best one becomes
  /// best.h5 if its value is better than that of best.h5 and all of it is finite. A link of `from`
  /// under another step's name is another checkpoint. Throws CheckpointError.
  bool begin(std::optional<std::filesystem::path> from);

  /// To be called after the run has saved `path`. Removes checkpoints beyond the `keep` newest (0:
  /// none), and unfinished files left by killed processes. Of the run's own, the newest `keep` and
  /// the newest `finite` one always stay. Files of its past are removed once `keep` newer ones are
  /// finite and good; each is read once for that. Other files stay. A file that cannot be removed
  /// gives a warning. With keep_every, files of its multiples stay in any case. With `best`, if
  /// `train` has a better value than folder/best.h5, that name becomes another name of this file,
  /// or of a copy.
  void saved(const std::filesystem::path& path, bool finite = true, const TrainState& train = {});

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// The newest good and finite one. Files of the past are read for it, once.
  [[nodiscard]] std::optional<std::filesystem::path> newest_finite();
  /// The value of options.best in best.h5.
  [[nodiscard]] std::optional<double> best() const noexcept { return best_; }
  /// The last checkpoint saved, or the one the run resumed from.
  [[nodiscard]] const std::optional<std::filesystem::path>& newest() const noexcept {
    return newest_;
  }

 private:
  struct Own {
    std::filesystem::path path;
    bool finite = true;
  };
  void prune();
  void remove_unfinished() const;
  /// Whether a file of the past verifies and all of its state is finite.
  [[nodiscard]] bool is_good(const std::filesystem::path& path);

  /// Step and value of best.h5.
  struct Best {
    std::int64_t step = 0;
    std::uint64_t hash = 0;
    std::optional<double> figure;
  };
  /// Nothing if the file does not exist. Throws CheckpointError.
  [[nodiscard]] std::optional<Best> read_best() const;
  /// Gives best.h5 the name of its step, and returns that; or best.h5 itself, if another file has
  /// the name.
  [[nodiscard]] std::filesystem::path name_by_its_step(const Best& best) const;
  /// Searches the past for the best checkpoint that is better than best.h5.
  void find_best();
  /// The value of options_.best in a checkpoint, if it was measured.
  [[nodiscard]] std::optional<double> figure_of(const CheckpointFile& file) const;
  void keep_best(const std::filesystem::path& path, double figure);

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::size_t keep_;
  std::optional<double> best_;  ///< value of options_.best in folder_/best.h5
  std::optional<std::filesystem::path> newest_;
  std::vector<std::filesystem::path> past_;        ///< newest first
  std::vector<Own> own_;                           ///< newest first
  std::map<std::filesystem::path, bool> is_good_;  ///< subset of past_ already read
};

}  // namespace lockstep
