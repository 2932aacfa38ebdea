#include <lockstep/rpc/delayed_messages.hpp>

#include <exception>
#include <utility>

namespace lockstep::rpc {

DelayedMessages::DelayedMessages(std::uint64_t seed, std::chrono::microseconds longest,
                                 std::function<void()> begin_thread)
    : random_(seed),
      microseconds_(0, longest.count()),
      begin_thread_(std::move(begin_thread)),
      thread_([this] { run(); }) {}

DelayedMessages::~DelayedMessages() { stop(); }

void DelayedMessages::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DelayedMessages::add(std::function<void()> send) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(Clock::now() + std::chrono::microseconds(microseconds_(random_)),
                     std::move(send));
  }
  changed_.notify_one();
}

std::size_t DelayedMessages::size() const {
  const std::lock_guard lock(mutex_);
  return waiting_.size();
}

void DelayedMessages::run() {
  begin_thread_();
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (waiting_.empty()) {
      changed_.wait(lock);
    } else if (const auto due = waiting_.begin()->first; due > Clock::now()) {
      changed_.wait_until(lock, due);
    } else {
      const auto first = waiting_.begin();
      const auto send = first->second;
      // It counts as waiting until it counts as sent.
      lock.unlock();
      try {
        send();
      } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the group has failed
      }
      lock.lock();
      waiting_.erase(first);
    }
  }
}

}  // namespace lockstep::rpc
