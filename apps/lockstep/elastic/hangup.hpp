#pragma once

namespace lockstep::elastic {

/// Whether SIGHUP was ignored when this process began, as `nohup` has it. Later nobody can tell:
/// UCX, which comes with MPI's library, sets a handler of its own when it is loaded.
[[nodiscard]] bool hangup_was_ignored() noexcept;

}  // namespace lockstep::elastic
