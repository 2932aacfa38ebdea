#pragma once
#include <filesystem>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {

/// What a command of the `lockstep` utility prints and returns.
struct CheckpointReport {
  std::string text;  ///< ends with a newline
  ExitCode code = ExitCode::done;
};

/// Step and epoch, who wrote it, a table of tensors (name, dtype, shape, bytes), and the deck.
/// Checks the file's header, manifest and size, but not the tensors' bytes.
[[nodiscard]] CheckpointReport inspect_checkpoint(const std::filesystem::path& path);

/// "good", with size and count, or the sentence that says what is wrong, and exit code 4.
[[nodiscard]] CheckpointReport check_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep
