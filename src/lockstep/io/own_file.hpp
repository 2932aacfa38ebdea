#pragma once
#include <filesystem>

namespace lockstep {

/// To be called before one of the run's own files is opened for writing: removes a symbolic link
/// with that name, so that nothing is written to a file elsewhere.
void remove_link(const std::filesystem::path& file) noexcept;

}  // namespace lockstep
