#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/options.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

class RunWatch;

/// Where a run keeps everything: deck.toml, metrics.jsonl, summary.json, log.txt, curves.svg,
/// checkpoints/, trace/. Only rank 0 writes outside checkpoints/. While this object lives, no other
/// run has the folder (see FolderLock).
class RunFolder {
 public:
  /// Makes the folder options.dir, or takes it over when resuming. A folder that holds an earlier
  /// run which is not being resumed is moved aside to DIR.1, DIR.2, ...: nothing is lost. Throws
  /// AgreedError with ExitCode::bad_input, on all ranks, where it cannot be written, another run
  /// has it, or it is not one that could be moved aside, such as "." and "/". Collective.
  static RunFolder open(ProcessGroup& group, const RunOptions& options, bool resume);
  RunFolder(RunFolder&&) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;
  ~RunFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Replaces a small file whole (temporary file, then rename). Throws Error where that fails.
  void write(const std::string& name, const std::string& text) const;

  /// Why the run should stop before a step that takes `step_s`, signals apart: a file `stop` here,
  /// a time limit, or that the folder is lost. What rank 0 sees; none on other ranks.
  [[nodiscard]] StopReason stop_reason(double step_s) const noexcept;
  /// Throws CheckpointError, on rank 0, if the folder was removed, moved or given to another run.
  void expect_there() const;
  /// Runs `part`, which writes into the folder; where that fails because the folder was lost,
  /// throws as expect_there() does. Local.
  void write_in(const std::function<void()>& part) const;
  /// expect_there(), for who may outlive this.
  [[nodiscard]] std::function<void()> expectation() const;
  /// A run that has stopped because of it removes the file `stop`, so that the next one goes on.
  void remove_stop_file() const noexcept;

 private:
  RunFolder(std::filesystem::path path, std::unique_ptr<RunWatch> watch);

  std::filesystem::path path_;
  std::unique_ptr<RunWatch> watch_;  ///< rank 0's
};

}  // namespace lockstep::train
