#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/options.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

class RunWatch;

/// A run's folder: deck.toml, metrics.jsonl, summary.json, log.txt, curves.svg, checkpoints/,
/// trace/. Only rank 0 writes outside checkpoints/. While this object lives, no other run can use
/// the folder (see FolderLock).
class RunFolder {
 public:
  /// How a run's deck.toml begins; the hash of the deck follows.
  static constexpr std::string_view deck_heading = "# hash ";

  /// Makes the folder options.dir, or takes it over when resuming. A folder with an earlier run
  /// that is not resumed is moved aside to DIR.1, DIR.2, ...: nothing is lost. `reads`: files and
  /// folders that the run reads. Throws AgreedError with ExitCode::bad_input, on all ranks, if the
  /// folder cannot be written, belongs to another run, holds a deck.toml that no run wrote or one
  /// of `reads` other than a run's deck.toml, or cannot be moved aside, as "." and "/". Collective.
  static RunFolder open(ProcessGroup& group, const RunOptions& options, bool resume,
                        const std::vector<std::filesystem::path>& reads = {});
  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Replaces a small file, or a symbolic link of its name, as a whole. Throws FileError.
  void write(const std::string& name, const std::string& text,
             Durability durability = Durability::crash_of_machine) const;

  /// Reason to stop before a step that takes `step_s`, apart from signals: a file `stop` here, a
  /// time limit, or a lost folder. On rank 0; none on other ranks.
  [[nodiscard]] StopReason stop_reason(double step_s) const noexcept;
  /// Throws CheckpointError, on rank 0, if the folder was removed, moved or given to another run.
  void expect_there() const;
  /// Runs `part`, which writes into the folder. If it fails because the folder was lost, throws as
  /// expect_there() does. Local.
  void write_in(const std::function<void()>& part) const;
  /// expect_there(), as a function that may outlive this.
  [[nodiscard]] std::function<void()> expectation() const;
  /// Removes the file `stop` after a run that stopped because of it, so that the next one
  /// continues.
  void remove_stop_file() const noexcept;

 private:
  RunFolder(std::filesystem::path path, std::unique_ptr<RunWatch> watch);

  std::filesystem::path path_;
  std::unique_ptr<RunWatch> watch_;  ///< on rank 0 only
};

}  // namespace lockstep::train
