#pragma once
#include <filesystem>
#include <string>

namespace lockstep {

/// All bytes of a file. Throws InputError, saying which file cannot be read and why: one that is
/// not there, a folder, a disk that fails. (std::istreambuf_iterator throws without a name.)
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

}  // namespace lockstep
