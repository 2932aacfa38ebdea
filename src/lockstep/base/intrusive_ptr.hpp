#pragma once
#include <atomic>
#include <cstdint>
#include <utility>

namespace lockstep {

/// Base of records that count their own owners. `Derived` provides `void release() noexcept`,
/// called when the last owner lets go: records go back to a pool, so the hot path never allocates.
template <class Derived>
class RefCounted {
 public:
  void add_owner() const noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void drop_owner() const noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const_cast<Derived*>(static_cast<const Derived*>(this))->release();
    }
  }
  [[nodiscard]] std::int32_t owners() const noexcept {
    return owners_.load(std::memory_order_acquire);
  }

 protected:
  RefCounted() = default;
  ~RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

 private:
  mutable std::atomic<std::int32_t> owners_{0};
};

/// A shared owner of a RefCounted record: one pointer wide, no control block.
template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  explicit IntrusivePtr(T* record) noexcept : record_(record) {
    if (record_) record_->add_owner();
  }
  IntrusivePtr(const IntrusivePtr& other) noexcept : IntrusivePtr(other.record_) {}
  IntrusivePtr(IntrusivePtr&& other) noexcept : record_(std::exchange(other.record_, nullptr)) {}
  template <class U>
  IntrusivePtr(const IntrusivePtr<U>& other) noexcept
      : IntrusivePtr(static_cast<T*>(other.get())) {}
  IntrusivePtr& operator=(IntrusivePtr other) noexcept {
    std::swap(record_, other.record_);
    return *this;
  }
  ~IntrusivePtr() {
    if (record_) record_->drop_owner();
  }

  [[nodiscard]] T* get() const noexcept { return record_; }
  T& operator*() const noexcept { return *record_; }
  T* operator->() const noexcept { return record_; }
  explicit operator bool() const noexcept { return record_ != nullptr; }
  friend bool operator==(const IntrusivePtr&, const IntrusivePtr&) = default;

 private:
  T* record_ = nullptr;
};

}  // namespace lockstep
