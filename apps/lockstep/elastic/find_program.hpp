#pragma once
#include <filesystem>
#include <string>

namespace lockstep::elastic {

/// What execvp() would start for `name`: `name` itself if it has a slash, else the first of PATH.
/// Empty if there is nothing that may be executed.
[[nodiscard]] std::filesystem::path find_program(const std::string& name);

/// Whether `file` is a file that may be executed.
[[nodiscard]] bool can_run(const std::filesystem::path& file);

}  // namespace lockstep::elastic
