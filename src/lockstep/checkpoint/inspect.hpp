#pragma once
#include <filesystem>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {

/// Output and exit code of a command of the `lockstep` utility.
struct CheckpointReport {
  std::string text;  ///< ends with a newline
  ExitCode code = ExitCode::done;
};

/// Step and epoch, origin, a table of tensors (name, dtype, shape, bytes), and the deck. Checks the
/// file's header, manifest and size, but not the tensors' bytes.
[[nodiscard]] CheckpointReport inspect_checkpoint(const std::filesystem::path& path);

/// "good", with size and count; or a sentence on the fault, and exit code 4.
[[nodiscard]] CheckpointReport check_checkpoint(const std::filesystem::path& path);

}  // namespace lockstep
