#pragma once
#include <filesystem>

namespace lockstep {

/// Before a file of a run's own is opened for writing by its name: where a symbolic link stands
/// there it is removed, so that what is written does not land in a file elsewhere.
void remove_link(const std::filesystem::path& file) noexcept;

}  // namespace lockstep
