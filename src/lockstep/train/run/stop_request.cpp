#include <lockstep/train/run/stop_request.hpp>

#include <signal.h>
#include <time.h>

#include <atomic>

namespace lockstep::train {
namespace {

// Atomic, since ranks may be threads and a signal handler writes.
std::atomic<StopReason> requested{StopReason::none};
std::atomic<std::int64_t> interrupted_at_ms{0};
static_assert(decltype(requested)::is_always_lock_free &&
              decltype(interrupted_at_ms)::is_always_lock_free);

constexpr std::int64_t same_interrupt_ms = 500;

std::int64_t now_ms() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1'000'000;
}

void request(StopReason reason) noexcept {
  if (requested < reason) requested = reason;
}

void interrupt(int number) noexcept {
  std::int64_t first = 0;
  request(StopReason::sigint);
  if (interrupted_at_ms.compare_exchange_strong(first, now_ms())) return;
  if (now_ms() - first < same_interrupt_ms) return;
  ::signal(number, SIG_DFL);
  ::raise(number);  // when this handler returns
}

}  // namespace

const char* words(StopReason reason) noexcept {
  switch (reason) {
    case StopReason::none:
      return "";
    case StopReason::sighup:
      return "SIGHUP";
    case StopReason::sigusr1:
      return "SIGUSR1";
    case StopReason::sigterm:
      return "SIGTERM";
    case StopReason::sigint:
      return "SIGINT";
    case StopReason::max_minutes:
      return "run.max_minutes";
    case StopReason::time_limit:
      return "time limit of the job";
    case StopReason::stop_after_epochs:
      return "run.stop_after_epochs";
    case StopReason::stop_after_steps:
      return "run.stop_after_steps";
    case StopReason::stop_file:
      return "file stop";
    case StopReason::folder_lost:
      return "run folder lost";
  }
  return "";
}

void listen_for_stop_requests() noexcept {
  ::signal(SIGTERM, [](int) { request(StopReason::sigterm); });
  ::signal(SIGUSR1, [](int) { request(StopReason::sigusr1); });
  ::signal(SIGINT, [](int number) { interrupt(number); });
  struct sigaction hup {};
  if (::sigaction(SIGHUP, nullptr, &hup) == 0 && hup.sa_handler == SIG_DFL)
    ::signal(SIGHUP, [](int) { request(StopReason::sighup); });
}

StopRequestsHeld::StopRequestsHeld() noexcept {
  sigset_t held;
  sigemptyset(&held);
  sigaddset(&held, SIGUSR1);
  sigaddset(&held, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &held, &mask_);
  sigaction(SIGUSR1, nullptr, &usr1_);
  sigaction(SIGHUP, nullptr, &hup_);
}

StopRequestsHeld::~StopRequestsHeld() {
  sigaction(SIGUSR1, &usr1_, nullptr);
  sigaction(SIGHUP, &hup_, nullptr);
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
}

StopReason requested_stop() noexcept { return requested; }

}  // namespace lockstep::train
