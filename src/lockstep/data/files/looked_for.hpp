#pragma once
#include <filesystem>
#include <string>

namespace lockstep::detail {

/// `path` in a message that it is missing. A relative one comes with its absolute form: "heat.h5
/// (looked for as /data/heat.h5: relative paths start in the working directory)".
[[nodiscard]] std::string looked_for(const std::filesystem::path& path);

}  // namespace lockstep::detail
