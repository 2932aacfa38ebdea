#pragma once
#include <optional>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Why a rank cannot go on, as all ranks know it.
struct AgreedFailure {
  int rank = 0;  ///< the lowest that failed
  std::string message;
  ExitCode code = ExitCode::failure;
  std::string host;         ///< of that rank
  bool everywhere = false;  ///< every rank failed with this message
};

/// All ranks go on, or all know why not: so that none of them throws alone, between two
/// collectives, and leaves the others waiting. `message` says why this rank cannot go on, empty if
/// it can. Returns nothing if all can; else the same on every rank. Collective; one all-reduce of 8
/// bytes where all is well.
[[nodiscard]] std::optional<AgreedFailure> first_failure(ProcessGroup& group,
                                                         const std::string& message,
                                                         ExitCode code = ExitCode::failure);

}  // namespace lockstep
