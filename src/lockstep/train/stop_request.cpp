#include <lockstep/train/stop_request.hpp>

#include <array>
#include <csignal>

namespace lockstep::train {
namespace {

volatile std::sig_atomic_t stop_received = 0;
constexpr std::array signals{SIGTERM, SIGUSR1};

}  // namespace

StopRequest::StopRequest() {
  stop_received = 0;
  for (const int number : signals) std::signal(number, [](int) { stop_received = 1; });
}

StopRequest::~StopRequest() {
  for (const int number : signals) std::signal(number, SIG_DFL);
}

bool StopRequest::received() noexcept { return stop_received != 0; }

}  // namespace lockstep::train
