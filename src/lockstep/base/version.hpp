#pragma once
#include <string>

namespace lockstep {

/// The library's version, e.g. "0.1.0".
[[nodiscard]] const char* version() noexcept;

/// The library's build, for reports: git commit, compiler, flags, -march value.
struct BuildInfo {
  std::string git_commit, compiler, flags, arch;
};
[[nodiscard]] const BuildInfo& build_info();

}  // namespace lockstep
