#include <lockstep/nn/device_guard.hpp>

#include <utility>

namespace lockstep::nn {
namespace {

thread_local constinit Device device_of_thread;

}  // namespace

DeviceGuard::DeviceGuard(Device device) : before_(std::exchange(device_of_thread, device)) {}

DeviceGuard::~DeviceGuard() { device_of_thread = before_; }

Device default_device() noexcept { return device_of_thread; }

}  // namespace lockstep::nn
