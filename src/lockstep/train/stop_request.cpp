#include <lockstep/train/stop_request.hpp>

#include <atomic>
#include <csignal>

namespace lockstep::train {
namespace {

std::atomic<bool> requested{false};  // ranks may be threads; a handler may write it too
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace

void listen_for_stop_requests() noexcept {
  for (const int number : {SIGTERM, SIGUSR1}) std::signal(number, [](int) { requested = true; });
}

bool stop_requested() noexcept { return requested; }

}  // namespace lockstep::train
