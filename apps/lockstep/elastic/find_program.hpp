#pragma once
#include <filesystem>
#include <string>

namespace lockstep::elastic {

/// The file that execvp() would start for `name`: `name` itself if it has a slash, else the first
/// match in PATH. Empty if no such file can be executed.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);

/// The file of this program, and that of another program in the same folder; it may not exist.
[[nodiscard]] std::filesystem::path this_program();
[[nodiscard]] std::filesystem::path program_beside(const std::string& name);

/// Whether `file` can be executed.
[[nodiscard]] bool can_run(const std::filesystem::path& file);

}  // namespace lockstep::elastic
