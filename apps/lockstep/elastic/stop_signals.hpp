#pragma once
#include <csignal>

namespace lockstep::elastic {

/// From now on `handler` is called for the signals by which a user or a batch system asks this
/// process to stop, and output that nobody reads does not end it.
inline void on_stop_signals(void (*handler)(int)) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) std::signal(number, handler);
  // The terminal was closed; under nohup the signal is ignored (apps/hangup.c).
  if (std::signal(SIGHUP, handler) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace lockstep::elastic
