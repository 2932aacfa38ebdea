#pragma once
#include <mutex>
#include <utility>
#include <vector>

#include <lockstep/comm/nccl/api.hpp>

namespace lockstep {

/// Events of one device, made once and used again. Thread-safe.
class EventPool {
 public:
  explicit EventPool(NcclApi& api) : api_(api) {}
  ~EventPool();
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;

  [[nodiscard]] NcclApi::Event take();
  void give(NcclApi::Event event) noexcept;
  [[nodiscard]] NcclApi& api() noexcept { return api_; }

 private:
  NcclApi& api_;
  std::mutex mutex_;
  std::vector<NcclApi::Event> free_;
  std::size_t made_ = 0;  // free_ has room for so many
};

/// A mark in a stream's queue; none until record().
class Event {
 public:
  Event() = default;
  ~Event() { reset(); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(EventPool& pool, NcclApi::Stream stream) {
    if (!event_) event_ = pool.take();
    pool_ = &pool;
    pool.api().record(event_, stream);
  }
  [[nodiscard]] bool is_recorded() const noexcept { return event_ != nullptr; }
  void make_wait(NcclApi::Stream stream) const { pool_->api().make_wait(stream, event_); }
  [[nodiscard]] bool is_over() const { return pool_->api().is_over(event_); }
  void reset() noexcept {
    if (event_) pool_->give(std::exchange(event_, nullptr));
  }

 private:
  EventPool* pool_ = nullptr;
  NcclApi::Event event_ = nullptr;
};

}  // namespace lockstep
