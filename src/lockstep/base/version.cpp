#include <lockstep/base/version.hpp>

#include <lockstep_build_info.hpp>

namespace lockstep {

const char* version() noexcept { return LOCKSTEP_VERSION; }

const BuildInfo& build_info() {
  static const BuildInfo info{LOCKSTEP_GIT_COMMIT, LOCKSTEP_COMPILER, LOCKSTEP_FLAGS,
                              LOCKSTEP_ARCH};
  return info;
}

}  // namespace lockstep
