#pragma once
#include <filesystem>
#include <string>

namespace lockstep::utility {

/// `folder`, the --output of a command that keeps its results there in the file `results`. Throws
/// InputError if it is no folder, cannot be read, or holds no results but other files, which are
/// then not written among. `whose` results they are, for messages: "a study's".
[[nodiscard]] std::filesystem::path checked_output(const std::filesystem::path& folder,
                                                   const std::string& results, const char* whose);

}  // namespace lockstep::utility
