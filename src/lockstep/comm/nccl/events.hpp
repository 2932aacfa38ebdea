#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// Events of one device, made once and used again. Thread-safe.
class EventPool {
 public:
  explicit EventPool(Device device) : device_(device) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] DeviceEvent* take();
  void give(DeviceEvent* event) noexcept;

 private:
  Device device_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceEvent>> events_;
  std::vector<DeviceEvent*> free_;  // has room for all of events_
};

/// A mark in a stream's queue; none until record().
class Event {
 public:
  Event() = default;
  ~Event() { reset(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Throws DeviceError.
  void record(EventPool& pool, const Stream& stream) {
    if (!event_) event_ = pool.take();
    pool_ = &pool;
    event_->record(stream);
  }
  [[nodiscard]] bool is_recorded() const noexcept { return event_ != nullptr; }
  void make_wait(const Stream& stream) const { stream.wait(*event_); }
  [[nodiscard]] bool is_over() const { return event_->is_over(); }
  void reset() noexcept {
    if (event_) pool_->give(std::exchange(event_, nullptr));
  }

 private:
  EventPool* pool_ = nullptr;
  DeviceEvent* event_ = nullptr;
};

}  // namespace lockstep
