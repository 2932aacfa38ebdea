#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>

namespace lockstep {

/// Whether a value of options.best is better than `best`, the best so far, if there is one; NaN
/// never is.
[[nodiscard]] bool is_better(const CheckpointOptions& options, std::optional<double> figure,
                             std::optional<double> best);
/// The value of options.best in `train`, if it was measured.
[[nodiscard]] std::optional<double> figure_of(const CheckpointOptions& options,
                                              const TrainState& train);

/// The checkpoints of one run in its folder: which it goes on from, which it wrote, what may go.
/// Local, and for one rank alone while nobody else saves in that folder.
///
/// The files named step-N.h5 are one branch, the run's: its past, up to the checkpoint it goes on
/// from, and what it saved since. What lies there and belongs to neither is moved aside into a
/// folder of its own before the run takes a step. So the greatest good step is always the one to go
/// on from, also for a program that knows nothing but the names, and in a copy of the folder.
class RunCheckpoints {
 public:
  RunCheckpoints(std::filesystem::path folder, const CheckpointOptions& options);

  /// The run goes on from `from`, which was verified, or begins. Checkpoints in the folder of later
  /// steps, or all if `from` is not in this folder, are another branch's: they are moved to
  /// next_abandoned_folder(folder), which a warning of the log says, and never removed. The last
  /// one moved is the newest: killed before, this has not happened yet. Returns whether `from` is
  /// in this folder. If it is best.h5, whose step's own file may be gone, that name is given again.
  /// With options.best it becomes best.h5 where its value is better than that one's and all of it
  /// is finite. Throws CheckpointError.
  bool begin(std::optional<std::filesystem::path> from);

  /// The run has saved `path`. Removes what is beyond the `keep` newest (0: nothing), and what
  /// killed processes left of unfinished ones. Of the run's own the newest `keep` stay whatever
  /// else lies there, and the newest `finite` one. Files of its past go once `keep` newer ones are
  /// finite and good; each is looked at, once, before it counts. Others stay. What cannot be
  /// removed is a warning. With keep_every, files of its multiples stay in any case. With `best`,
  /// and a value of that metric in `train` that is better than that of folder/best.h5, that name
  /// becomes another of this file, or of a copy of it.
  void saved(const std::filesystem::path& path, bool finite = true, const TrainState& train = {});

  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return folder_; }
  /// The newest that is good and finite; those of the past are read for it, once.
  [[nodiscard]] std::optional<std::filesystem::path> newest_finite();
  /// The value of options.best in best.h5.
  [[nodiscard]] std::optional<double> best() const noexcept { return best_; }
  /// What the run saved last, else what it goes on from.
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

  /// What best.h5 holds.
  struct Best {
    std::int64_t step = 0;
    std::uint64_t hash = 0;
    std::optional<double> figure;
  };
  /// Nothing if it is not there. Throws CheckpointError.
  [[nodiscard]] std::optional<Best> read_best() const;
  /// Gives best.h5 the name of its step, and returns it; or best.h5 itself, where another's has it.
  [[nodiscard]] std::filesystem::path name_by_its_step(const Best& best) const;
  /// Looks in the past for a better one than best.h5.
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
  std::map<std::filesystem::path, bool> is_good_;  ///< of past_: those that were looked at
};

}  // namespace lockstep
