#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep::rpc {

/// Whether a rank's calls are possible, and if not, why. Thread-safe.
class Availability {
 public:
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }
  /// From now on they are not. The first reason stays.
  void close(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (open_.exchange(false)) reason_ = reason;
  }
  /// Throws CommError if they are not.
  void expect_open(const std::string& own_name) const {
    if (is_open()) return;
    const std::lock_guard lock(mutex_);
    throw CommError(own_name + ": no remote call is possible any more: " + reason_);
  }

 private:
  std::atomic<bool> open_ = true;
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace lockstep::rpc
