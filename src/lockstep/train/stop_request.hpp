#pragma once

namespace lockstep::train {

/// From now until the process ends, SIGTERM and SIGUSR1, however many, ask it to stop instead of
/// ending it: batch systems send them before the time limit. The training loop looks at each step's
/// end, saves, and the program ends with ExitCode::requeue. For programs, before MPI_Init: App does
/// it. Nothing puts the old handlers back: a signal after the last save must not lose the exit
/// code.
void listen_for_stop_requests() noexcept;

/// True once one has come to this process.
[[nodiscard]] bool stop_requested() noexcept;

}  // namespace lockstep::train
