#pragma once
#include <filesystem>
#include <string>

#include <lockstep/comm/process_group.hpp>

namespace lockstep::train {

/// Where a run keeps everything: deck.toml, metrics.jsonl, summary.json, log.txt, curves.svg,
/// checkpoints/, trace/. Only rank 0 writes outside checkpoints/.
class RunFolder {
 public:
  /// Makes the folder, or takes it over when resuming. A folder that holds an earlier run which is
  /// not being resumed is moved aside to DIR.1, DIR.2, ...: nothing is lost. Throws AgreedError
  /// with ExitCode::bad_input, on all ranks, where it cannot be written. Collective.
  static RunFolder open(ProcessGroup& group, const std::filesystem::path& dir, bool resume);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::filesystem::path file(const std::string& name) const { return path_ / name; }
  [[nodiscard]] std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }

  /// Replaces a small file whole (temporary file, then rename). Throws Error where that fails.
  void write(const std::string& name, const std::string& text) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace lockstep::train
