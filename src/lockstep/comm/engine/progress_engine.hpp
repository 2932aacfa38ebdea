#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/make_room.hpp>
#include <lockstep/base/spin_lock.hpp>

namespace lockstep {

/// A group, as the engine sees it.
class EngineMember {
 public:
  virtual ~EngineMember() = default;

  /// Moves on what is in flight, unless another thread is just doing so; true if it came further.
  /// A failure ends the group, and the next call on it throws.
  virtual bool progress_if_free() noexcept = 0;
  /// The oldest operation in flight, in words; empty if there is none, or if another thread is just
  /// moving it on. For messages.
  [[nodiscard]] virtual std::string oldest_in_flight() = 0;

  [[nodiscard]] bool is_busy() const noexcept { return busy_.load(std::memory_order_relaxed); }

 protected:
  EngineMember() = default;

  void set_busy(bool busy) noexcept { busy_.store(busy, std::memory_order_relaxed); }
  /// Somebody has moved this group on.
  void count_pass() noexcept {
    passes_.store(passes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  friend class ProgressEngine;
  std::atomic<bool> busy_ = false;         // something is in flight
  std::atomic<std::uint32_t> passes_ = 0;  // written by who holds the group
  std::uint32_t seen_ = 0;                 // of passes_, by the engine's thread
  bool threads_allowed_ = false;           // the engine's thread may move it on
  bool always_ = false;                    // ... whether or not others do
};

/// Moves on everything that this process has in flight, whichever group's Work its threads wait
/// for: so every order of waiting that MPI allows comes to an end.
///
/// Where MPI grants MPI_THREAD_MULTIPLE, one thread a process does it for groups whose owner makes
/// no calls, because it computes or is inside a blocking call of its own. It takes over a group
/// that nobody has moved for 10 ms. It looks every 10 ms; while nobody needs it, more and more
/// rarely, down to every 160 ms. Groups with Progress::thread it moves on all the time.
class ProgressEngine {
 public:
  /// The process's own.
  [[nodiscard]] static ProgressEngine& instance();

  /// `threads_allowed`: a thread of the engine's own may move the member on; `always`: it is to do
  /// so all the time. Thread-safe.
  void add(EngineMember& member, bool threads_allowed, bool always);
  /// Whether the caller is the engine's thread.
  [[nodiscard]] static bool on_own_thread() noexcept;
  /// When it returns, nobody moves `member` on any more; for one that is no member, nothing
  /// happens. Not from within progress_if_free(). Thread-safe.
  void remove(EngineMember& member) noexcept;

  /// Moves on every group but `own`, if nobody else is just doing so; true if one came further.
  bool progress_others(const EngineMember* own) noexcept;
  /// Moves on every group until `over()`, for at most `timeout`; true if it is over. For what is
  /// no operation of a group, such as the set-up of one.
  template <class Over>
  [[nodiscard]] bool progress_until(const Over& over, Clock::duration timeout) {
    const auto start = Clock::now();
    while (!over()) {
      if (Clock::now() - start > timeout) return false;
      progress_others(nullptr);
      make_room(Clock::now() - start);
    }
    return true;
  }
  /// A member with `always` has something in flight.
  void wake() noexcept;
  /// What groups other than `own` have in flight, for messages; without those that another thread
  /// is just moving on.
  [[nodiscard]] std::string in_flight_elsewhere(const EngineMember* own);

 private:
  ProgressEngine() = default;
  void run(const std::stop_token& stop);
  /// How long the thread may sleep now.
  [[nodiscard]] std::chrono::microseconds look_after_all() noexcept;

  SpinLock members_lock_;
  std::vector<EngineMember*> members_;
  std::atomic<std::size_t> count_ = 0;
  std::chrono::steady_clock::time_point last_needed_;  // the thread's own
  std::mutex thread_mutex_;                            // guards what follows
  std::condition_variable_any woken_changed_;
  bool woken_ = false;
  std::jthread thread_;
};

}  // namespace lockstep
