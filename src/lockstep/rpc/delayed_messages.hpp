#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include <lockstep/base/clock.hpp>

namespace lockstep::rpc {

/// For tests: delays each message by a random time, so that messages overtake each other and the
/// calls. Thread-safe.
class DelayedMessages {
 public:
  /// `longest`: that a message waits. `begin_thread` is called at the beginning of its thread.
  DelayedMessages(std::uint64_t seed, std::chrono::microseconds longest,
                  std::function<void()> begin_thread);
  ~DelayedMessages();
  DelayedMessages(const DelayedMessages&) = delete;
  DelayedMessages& operator=(const DelayedMessages&) = delete;

  void add(std::function<void()> send);
  /// Sends none any more.
  void stop() noexcept;
  /// That have not been sent.
  [[nodiscard]] std::size_t size() const;

 private:
  void run();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, std::function<void()>> waiting_;
  std::mt19937_64 random_;
  std::uniform_int_distribution<std::int64_t> microseconds_;
  const std::function<void()> begin_thread_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace lockstep::rpc
