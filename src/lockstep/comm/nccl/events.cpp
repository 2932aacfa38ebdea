#include <lockstep/comm/nccl/events.hpp>

namespace lockstep {

DeviceEvent* EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    free_.reserve(events_.size() + 1);
    events_.push_back(std::make_unique<DeviceEvent>(device_));
    return events_.back().get();
  }
  DeviceEvent* const event = free_.back();
  free_.pop_back();
  return event;
}

void EventPool::give(DeviceEvent* event) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);  // within what take() has reserved
}

}  // namespace lockstep
