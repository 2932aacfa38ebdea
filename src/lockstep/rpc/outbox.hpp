#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/spin_lock.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::rpc {

/// How many messages were received from each rank over one group, and what these have been told of
/// that. Thread-safe.
class Acknowledgements {
 public:
  explicit Acknowledgements(int ranks);

  /// One was received from it. True if that rank should be told by a message of its own.
  [[nodiscard]] bool add(int from) noexcept;
  /// What a message to that rank tells it.
  [[nodiscard]] std::uint32_t tell(int to) noexcept;

 private:
  struct Line {
    std::atomic<std::uint32_t> received = 0, told = 0;
  };
  const std::uint32_t told_at_once_;  // of so many a receiver tells that has nothing else to say
  std::vector<Line> lines_;
};

/// What travels from this rank to the others over one group.
///
/// A bounded number of messages to each rank is on its way at a time: both ends look through those
/// that have not been received, again and again, so that n of them would take n^2 looks. Further
/// ones wait here until the receiver has told how many have come: Head::received of its messages,
/// or a credit of its own where it has nothing else to say. They may overtake each other.
/// Thread-safe.
class Outbox {
 public:
  /// A message that is sealed, and what it is called in the flight recorder.
  struct QueuedMessage {
    Tensor bytes;
    std::vector<Tensor> long_tensors;
    std::uint32_t tag = 0;  ///< of the first of these
    bool waits = true;      ///< for room
    const char* name = "";
    int number = 0;
  };

  /// `acknowledgements`: of the other group; each message tells its receiver of them when it
  /// leaves. `must_push`: a message needs its sender until it has been received. `awake`: how long
  /// a sender waits for that without sleeping; 0: not at all.
  Outbox(ProcessGroup& group, Acknowledgements& acknowledgements, bool must_push,
         std::chrono::microseconds awake);

  /// Sends it, or keeps it until there is room. Credits do not wait, as others wait for them.
  void send(int to, QueuedMessage&& message);
  /// Rank `by` has received so many of this rank's messages, modulo 2^32.
  void has_received(int by, std::uint32_t messages);
  /// Moves on what could not be sent at once; how long the caller may sleep, `at_most` or less.
  [[nodiscard]] std::chrono::microseconds push(std::chrono::microseconds at_most);
  [[nodiscard]] bool is_pushed() const noexcept {
    return unsent_.load(std::memory_order_relaxed) == 0;
  }

 private:
  /// To one rank.
  struct Line {
    std::atomic<std::uint32_t> sent = 0, received = 0;
    std::atomic<bool> some_wait = false;
    SpinLock lock;  // guards what follows
    std::deque<QueuedMessage> waiting;
    std::deque<Work> unsent;
    Clock::time_point changed;  // unsent
  };

  [[nodiscard]] bool has_room(const Line& line) const noexcept {
    return line.sent.load() - line.received.load() < window_;
  }
  void post(int to, Line& line, QueuedMessage& message);
  void post_waiting(int to, Line& line);
  /// False if it could not be sent at once.
  bool keep_until_sent(Line& line, const Work& started);
  void push_awake(Work& work);

  ProcessGroup& group_;
  Acknowledgements& acknowledgements_;
  const bool must_push_;
  const std::chrono::microseconds awake_;
  const std::uint32_t window_;
  std::deque<Line> lines_;
  std::atomic<int> unsent_ = 0;
  SpinLock pushing_;
};

}  // namespace lockstep::rpc
