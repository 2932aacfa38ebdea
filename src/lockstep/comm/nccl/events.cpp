#include <lockstep/comm/nccl/events.hpp>

namespace lockstep {

EventPool::~EventPool() {
  for (const NcclApi::Event event : free_) api_.destroy(event);
}

NcclApi::Event EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    const NcclApi::Event event = api_.make_event();
    free_.reserve(++made_);
    return event;
  }
  const NcclApi::Event event = free_.back();
  free_.pop_back();
  return event;
}

void EventPool::give(NcclApi::Event event) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);  // within what take() has reserved
}

}  // namespace lockstep
