#include <lockstep/train/stop_request.hpp>

#include <array>
#include <atomic>
#include <csignal>

namespace lockstep::train {
namespace {

std::atomic<bool> stop_received{false};  // ranks may be threads; a handler may write it too
static_assert(std::atomic<bool>::is_always_lock_free);
constexpr std::array signals{SIGTERM, SIGUSR1};

}  // namespace

StopRequest::StopRequest() {
  stop_received = false;
  for (const int number : signals) std::signal(number, [](int) { stop_received = true; });
}

StopRequest::~StopRequest() {
  for (const int number : signals) std::signal(number, SIG_DFL);
}

bool StopRequest::received() noexcept { return stop_received; }

}  // namespace lockstep::train
